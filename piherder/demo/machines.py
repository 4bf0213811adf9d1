"""The throw-away hosts: an sshd on loopback each, with files, and a row in the herd."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hosts import enrol
from hosts.host_keys import scan
from hosts.models import Generation, GenerationStatus, Host
from hosts.store.layout import TREE
from piherder.demo import files
from piherder.demo.proof import Disproved, Snapshot, snapshot
from piherder.demo.sshd import Sshd

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("attic", "garage", "porch")
FILES = 2000
ADDRESS = "127.0.0.1"
SCAN_SECONDS = 10.0


@dataclass(slots=True)
class Machine:
    """One host of the demonstration."""

    name: str
    folder: Path
    seed: int
    sshd: Sshd = field(init=False)
    key: enrol.LoginKey = field(init=False)

    def __post_init__(self) -> None:
        self.sshd = Sshd(self.folder / "sshd", self.name)
        self.key = enrol.new_login_key(self.name)

    @property
    def files(self) -> Path:
        """What is backed up."""
        return self.folder / "files"

    @property
    def row(self) -> Host:
        """The host as the herd knows it now."""
        return enrol.host_named(self.name)

    def build(self) -> None:
        """Make its files and let it answer. Raises SshdError, OSError."""
        self.files.mkdir(parents=True)
        files.fill(self.files, self.seed, FILES)
        self.sshd.add_key(self.key.public)
        self.sshd.start()

    def enrol(self) -> None:
        """Take it into the herd with exactly the host key whose fingerprint its owner reads from its own disk."""
        shown = scan(ADDRESS, self.sshd.port, SCAN_SECONDS)
        pins = enrol.pick(shown, self.fingerprint())
        # Three hosts on one machine share its /etc, so each has a folder of its own for the lock.
        enrol.add(
            self.name,
            self.key,
            pins,
            by="demo",
            sources=[str(self.files)],
            address=ADDRESS,
            port=self.sshd.port,
            user=self.sshd.user,
            copy_lock=str(self.folder),
        )

    def fingerprint(self) -> str:
        """As ssh-keygen reads it from the host's own key file."""
        key = self.folder / "sshd" / "host_ed25519.pub"
        done = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], capture_output=True, text=True, check=True)
        return done.stdout.split()[1]

    def good(self) -> list[Generation]:
        """Its good generations, oldest first."""
        found = Generation.objects.filter(source__host__name=self.name, status=GenerationStatus.GOOD)
        return list(found.select_related("source__host", "root").order_by("sequence"))

    def newest(self) -> Generation:
        """Its newest good generation. Raises Disproved when there is none."""
        found = self.good()
        if not found:
            raise Disproved(f"{self.name} has no good generation")
        return found[-1]

    def keep(self, generation: Generation) -> Snapshot:
        """Everything in a generation as it is on disk now."""
        return snapshot(generation.path / TREE)


def require_pinned(machine: Machine) -> None:
    """The herd holds the fingerprint on the host's disk and no other, and refuses to take a wrong one."""
    pinned = list(machine.row.keys.values_list("fingerprint", flat=True))
    if pinned != [machine.fingerprint()]:
        raise Disproved(f"{machine.name} is pinned to {', '.join(pinned) or 'nothing'}, not to its own key")
    try:
        enrol.pick(scan(ADDRESS, machine.sshd.port, SCAN_SECONDS), "SHA256:" + "A" * 43)
    except enrol.EnrolRefused:
        return
    raise Disproved(f"{machine.name} was accepted with a fingerprint that is not its own")
