"""One host of a herd on a throw-away sshd, its source, and what was kept of it before the fault."""

from __future__ import annotations

import hashlib
import os
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from hosts.gate import Gate
from hosts.models import BackupRoot, Credential, Host, HostKey, Source
from hosts.store.layout import TREE, source_folder_name
from hosts.store.root import create_marker
from hosts.vault import seal
from jobs import mutex, registry
from jobs.models import Job, Status
from piherder.demo.sshd import Sshd, SshdOptions
from tests.faults.herd import Herd
from tests.hosts.families.conftest import Pi, contents, fill
from tests.hosts.rsync.conftest import programs_naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.plugin import DjangoDbBlocker

SLOW_KIB, BIG_MIB = 300, 8  # a copy of half a minute, which no test waits for


class HostHerd(Herd):
    """A herd with the real way to hosts; its workers open what this process has sealed."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        self.env |= {
            "FAULTS_REAL_HOSTS": "1",
            "PIHERDER_MASTER_KEYS": " ".join(settings.PIHERDER_MASTER_KEYS),
            "PIHERDER_INSTALL_ID": settings.PIHERDER_INSTALL_ID,
            "PIHERDER_RUNTIME": str(self.runtime),
        }
        self.machines: list[Machine] = []
        self.litter: list[Path] = []

    @property
    def runtime(self) -> Path:
        """Where agents and their configs live."""
        return self.folder / "run"

    @contextmanager
    def entered(self, blocker: DjangoDbBlocker) -> Iterator[None]:
        """This process is a door of the herd and sees its hosts as they are."""
        with super().entered(blocker):
            registry.install_gate(Gate())
            yield

    def let_pass(self, beats: int) -> None:
        """As much time as the worker's heart needs for so many beats (about one a second)."""
        worker = self.worker()
        until = self.beats(worker) + beats
        self.until(lambda: self.beats(worker) >= until, "time passes")

    def programs(self) -> list[str]:
        """Command lines of agents, ssh and rsync that run here for any job."""
        return programs_naming(self.runtime)


def new_root(path: Path, *, default: bool = False) -> BackupRoot:
    """A backup root with its marker."""
    row = BackupRoot.objects.create(path=str(path), is_default=default)
    path.mkdir(exist_ok=True)
    create_marker(path, settings.PIHERDER_INSTALL_ID, row.marker.hex)
    return row


@dataclass(slots=True)
class Machine(Pi):
    """A `Pi` that the workers of a herd copy from. `kept`: hash of each generation that no fault may touch."""

    herd: HostHerd
    key: tuple[str, str]
    kept: dict[Path, str] = field(default_factory=dict)

    # --- jobs ----------------------------------------------------------------------------------------------------

    def ask(self, kind: str = "backup", **params: Any) -> Job:
        """Request a job for this host."""
        return self.herd.ask(kind, self.host.pk, **params)

    def done(self, kind: str = "backup", **params: Any) -> Job:
        """A job for this host, ended."""
        return self.herd.ended(self.ask(kind, **params))

    def copying(self, kib: int = SLOW_KIB, megabytes: int = BIG_MIB) -> Job:
        """A backup whose bytes are on their way."""
        self.slow(kib, megabytes)
        return self.moving(self.ask())

    def moving(self, job: Job) -> Job:
        """The job once rsync runs on the host and has told of its first bytes."""
        rows = Job.objects.filter(pk=job.pk, status=Status.RUNNING, progress_done__gt=0)
        self.herd.until(lambda: bool(self.servers()) and rows.exists(), f"{job} copies")
        job.refresh_from_db()
        return job

    def holder(self) -> str:
        """Token of whoever holds the host's mutex now."""
        return str(mutex.client().get(mutex.key(self.host.pk)) or "")

    # --- both sides ----------------------------------------------------------------------------------------------

    def servers(self) -> list[int]:
        """Process ids of rsync on the host."""
        return [pid for pid in self.sshd.processes() if b"\0--server\0" in command_line(pid)]

    def leftovers(self) -> list[str]:
        """Command lines of what still runs for a job, there and here."""
        own = {self.sshd._process.pid} if self.sshd._process else set()
        there = [command_line(pid) for pid in self.sshd.processes() if pid not in own]
        found = [line.replace(b"\0", b" ").decode(errors="replace") for line in there]
        return [*found, *programs_naming(self.folder), *self.herd.programs()]

    def remember(self) -> None:
        """What is good now may not change any more."""
        self.kept = {generation.path: digest(generation.path) for generation in self.good()}

    def touched(self) -> list[Path]:
        """Remembered generations that are not what they were."""
        return [path for path, before in self.kept.items() if digest(path) != before]

    def mend(self) -> None:
        """The host is up, answers with its pinned key, and may copy as fast as it can."""
        self.sshd.thaw()
        if not self.sshd.processes():
            self.sshd.start()
        HostKey.objects.filter(host=self.host).delete()
        pin(self.host, self.sshd)
        self.edit(**{name: getattr(self.host, name) for name in ("address", "port", "credential_id", "backup_limit")})
        self.edit(bandwidth_kib=0, before_hook="", after_hook="", last_error="", last_error_at=None)

    def same(self) -> bool:
        """Whether the newest good generation holds what the host has."""
        return contents(self.good()[-1].path / TREE) == contents(self.data)


def command_line(pid: int) -> bytes:
    """Words of a process, each ended by NUL; empty when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def digest(folder: Path) -> str:
    """Hash of names, kinds, modes, owners, times and bytes of everything below `folder`."""
    found = sorted(contents(folder).items())
    return hashlib.sha256(repr(found).encode(errors="surrogateescape")).hexdigest()


def pin(host: Host, sshd: Sshd) -> None:
    """What a person does who has compared the fingerprint."""
    key = sshd.host_key
    HostKey.objects.create(host=host, key_type=key.key_type, public=key.public_base64, fingerprint=key.fingerprint)


def new_credential(name: str, key: tuple[str, str]) -> Credential:
    """A login key (private, public)."""
    sealed = seal(key[0])
    return Credential.objects.create(name=name, public_key=key[1], fingerprint="x", private_key_sealed=sealed)


def new_machine(
    herd: HostHerd, name: str, folder: Path, root: BackupRoot, key: tuple[str, str], **options: Any
) -> Machine:
    """A host that is up, with one source and one good generation of it."""
    sshd = Sshd(folder / name, name, options=SshdOptions(**options))
    sshd.add_key(key[1])
    sshd.start()
    host = Host.objects.create(
        name=name,
        address="127.0.0.1",
        port=sshd.port,
        user=sshd.user,
        credential=new_credential(name, key),
        copy_lock=str(sshd.folder),
        backup_root=root,
    )
    pin(host, sshd)
    data = fill(folder / f"data of {name}", files=8)
    source = Source.objects.create(host=host, path=str(data), folder=source_folder_name(str(data)))
    machine = Machine(host, source, sshd, data, root, herd, key)
    machine.keep()
    machine.remember()
    herd.machines.append(machine)
    return machine


def until_gone(herd: Herd, what: Callable[[], list[str]], seconds: float) -> None:
    """Wait until nothing is left. Fails with what is."""
    left: list[str] = []

    def gone() -> bool:
        left[:] = what()
        return not left

    with suppress(AssertionError):
        herd.until(gone, "nothing is left", seconds)
        return
    raise AssertionError(f"after {seconds:.0f} s there still is: {left}\n{herd.report()}")


def kill(pid: int) -> None:
    """SIGKILL."""
    os.kill(pid, signal.SIGKILL)
