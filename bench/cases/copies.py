"""First and unchanged backup of 20,000 files, beside plain rsync with the same flags over the same sshd."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.asking import ask, ended, took
from bench.figures import Aim, Kind, Result, median
from bench.machines import Machines, machines
from bench.programs import migrate, worker
from hosts.models import Generation
from hosts.root_admin import add_root
from hosts.rsync.agent import Hop, JobAgent
from hosts.rsync.command import Backup, Options, Remote

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST, UNCHANGED = Aim(Kind.RATIO, 1.10), Aim(Kind.RATIO, 1.15)
FOLDERS, LIMIT = 100, 600.0


def plant(tree: Path, files: int) -> None:
    """Files of 0.5 to 4.5 KiB in a hundred folders; each content differs."""
    for number in range(files):
        path = tree / f"{number % FOLDERS:02d}" / f"file-{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * (500 // len(f"{number}\n") * (1 + number % 9)))


@dataclass(slots=True)
class Pair:
    """Both sides of one comparison, on one disk. `plain` is the folder plain rsync writes to."""

    files: int
    host: int
    root: Path
    plain: Path
    source: Path
    remote: Remote
    agent: JobAgent
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def engine(self) -> float:
        """Seconds from the request of a backup to its end.

        Looked for ten times a second only: looking takes the processor from the copy, and nobody looks at plain rsync.
        """
        job = ask("backup", self.host)
        ended([job], LIMIT, pause=0.1)
        return took(job)

    def rsync(self, destination: Path, link: Path | None = None) -> float:
        """Seconds of rsync alone, started by nobody but us."""
        destination.mkdir()
        lock = self.plain / "lock"
        options = Options(fake_super=os.geteuid() != 0)
        pull = Backup(self.remote, bytes(self.source), destination, lock, options, link_dest=link)
        began = time.monotonic()
        subprocess.run(pull.argv(), env=dict(self.agent.env), stdout=subprocess.DEVNULL, check=True, timeout=LIMIT)
        return time.monotonic() - began

    def round(self, turn: int) -> None:
        """One round: first copies of both, then unchanged copies of both; who begins changes with each round.

        Copies of the rounds before stay: ext4 looks long for an inode where many were freed a moment ago.
        """
        self._set_aside(turn)
        one, two = self.plain / f"{turn}-one", self.plain / f"{turn}-two"
        self._both(turn, "first", self.engine, lambda: self.rsync(one))
        self._both(turn, "unchanged", self.engine, lambda: self.rsync(two, one))

    def _both(self, turn: int, name: str, ours: Callable[[], float], theirs: Callable[[], float]) -> None:
        both = [("ours", ours), ("theirs", theirs)]
        for side, measured in both if turn % 2 else both[::-1]:
            os.sync()  # what the copy before left to be written is not this one's cost
            self.seconds.setdefault(f"{name} {side}", []).append(measured())

    def _set_aside(self, turn: int) -> None:
        """The next backup is a first one again."""
        Generation.objects.all().delete()
        for host in (path for path in self.root.iterdir() if path.is_dir()):
            host.rename(self.plain / f"{turn}-before-{host.name}")

    def result(self, name: str, aim: Aim, note: str = "") -> Result:
        """The line of a comparison."""
        ours, theirs = (median(self.seconds[f"{name} {side}"]) for side in ("ours", "theirs"))
        rounds = len(self.seconds[f"{name} ours"])
        return Result(f"{name} backup of {self.files:,} files", ours, "s", aim, theirs, rounds, note)


def run(folder: Path, quick: bool) -> list[Result]:
    """Two lines."""
    rounds, files = (1, 2_000) if quick else (5, 20_000)
    migrate()
    source, plain = folder / "source", folder / "plain"
    plain.mkdir()
    plant(source, files)
    root = folder / "backups"
    root.mkdir()
    add_root(root)
    with (
        worker(folder),
        machines(folder, 1, [str(source)]) as there,
        JobAgent(there.key.private, folder / "agent") as agent,
    ):
        pair = Pair(files, there.hosts[0].pk, root, plain, source, remote(there, agent), agent)
        for turn in range(rounds):
            pair.round(turn)
    note = "request to end: login, checksums, manifest and a synced disk before the rename; plain rsync syncs nothing"
    return [pair.result("first", FIRST, note), pair.result("unchanged", UNCHANGED)]


def remote(there: Machines, agent: JobAgent) -> Remote:
    """The host's side of plain rsync: the same command as the product's."""
    server = there.servers[0]
    hop = Hop(server.name, "127.0.0.1", server.user, [server.host_public_key], agent.public_keys[0], server.port)
    return Remote(server.name, agent.write_config(hop), lock=str(server.folder))
