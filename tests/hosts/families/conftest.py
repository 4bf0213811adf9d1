"""A host of the herd on a real loopback sshd, a real backup root, and jobs carried out in this process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import connections
from django.utils import timezone

from hosts.families import retention
from hosts.models import BackupRoot, Credential, Generation, GenerationStatus, Host, HostKey, Source
from hosts.store.layout import GenerationInfo, next_sequence, publish, seal, source_folder_name, take_over
from hosts.store.root import create_marker
from hosts.vault import seal as seal_secret
from jobs import hints, logs, node, runner
from jobs.models import Door, Job, WorkerNode
from jobs.services import Asker, request_cancel, request_job
from piherder.demo.sshd import Sshd, SshdOptions
from tests.hosts.rsync.conftest import programs_naming, wait_until

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

ASKER = Asker(Door.COMMAND, name="test")


def fill(folder: Path, files: int = 30) -> Path:
    """A small tree with what backups often lose: links of both kinds, holes, odd names, attributes."""
    (folder / "sub").mkdir(parents=True)
    for number in range(files):
        (folder / "sub" / f"file {number}").write_text(f"content {number}\n" * 10)
    os.link(folder / "sub" / "file 1", folder / "hard")
    (folder / "soft").symlink_to("sub/file 2")
    Path(os.fsdecode(os.fsencode(folder / "caf") + b"\xe9\nline")).write_text("odd")
    (folder / "-dash").write_text("dash")
    os.setxattr(folder / "-dash", "user.note", b"kept")
    with (folder / "sparse").open("wb") as handle:
        handle.truncate(4 << 20)
    return folder


@dataclass(slots=True)
class Pi:
    """One host of the herd with one source."""

    host: Host
    source: Source
    sshd: Sshd
    data: Path
    root: BackupRoot

    def request(self, kind: str, **params: Any) -> Job:
        """Insert a job for this host, not yet carried out."""
        return request_job(kind, self.host.pk, params, asker=ASKER).job

    def run(self, kind: str, **params: Any) -> Job:
        """A job for this host, carried out here and now."""
        return carry_out(self.request(kind, **params))

    def good(self) -> list[Generation]:
        """Good generations, oldest first."""
        return list(self.source.generations.filter(status=GenerationStatus.GOOD).order_by("sequence"))

    def edit(self, **fields: Any) -> None:
        """Change the host's row."""
        Host.objects.filter(pk=self.host.pk).update(**fields)

    def keep(self, **fields: Any) -> Generation:
        """A good generation of the data as they are now, made without the host."""
        return shelve(self.source, self.root, self.data, **fields)

    @property
    def folder(self) -> Path:
        """Where the source's generations lie."""
        return Path(self.root.path) / self.host.name / self.source.folder

    def partials(self) -> list[Path]:
        """What unfinished runs left."""
        return list(self.folder.glob(".partial-*"))

    def is_copying(self) -> bool:
        """Whether rsync is in the middle of the big file."""
        return self.has_written(0)

    def has_written(self, megabytes: float) -> bool:
        """Whether rsync is so far in the big file."""
        parts = self.folder.glob(".partial-*/tree/.big.*")
        with suppress(FileNotFoundError):  # it was finished while we looked
            return any(part.stat().st_size > megabytes * 1e6 for part in parts)
        return False

    def slow(self, kib: int = 500, megabytes: int = 8) -> None:
        """Something to copy that takes long."""
        (self.data / "big").write_bytes(os.urandom(megabytes << 20))
        self.edit(bandwidth_kib=kib)

    def is_quiet(self) -> bool:
        """Whether nothing of a job is left on the host or here."""
        return wait_until(lambda: len(self.sshd.processes()) == 1, 10) and not programs_naming(self.folder)


def shelve(source: Source, root: BackupRoot, data: Path, **fields: Any) -> Generation:
    """A good generation that holds a copy of `data`, as a backup leaves it."""
    folder = Path(root.path) / source.host.name / source.folder
    folder.mkdir(parents=True, exist_ok=True)
    sequence, now = next_sequence(folder), fields.get("started_at") or timezone.now()
    partial = take_over(folder, "shelve")
    subprocess.run(["cp", "-a", "--sparse=always", f"{data}/.", partial.tree], check=True)
    blank = GenerationInfo(source.host.name, source.path, sequence, now, now, settings.PIHERDER_INSTALL_ID, "0")
    info, _ = seal(partial, blank, {}, None, hash_here_bytes=1 << 30)
    publish(partial, folder / info.folder_name)
    values = {"sequence": sequence, "folder": info.folder_name, "started_at": now, "finished_at": now}
    more = {"files": info.files, "bytes": info.bytes, "status": GenerationStatus.GOOD}
    return Generation.objects.create(source=source, root=root, **{**values, **more, **fields})


@contextmanager
def meanwhile(ready: Callable[[], bool], action: Callable[[], object]) -> Iterator[None]:
    """Call `action` from another thread as soon as `ready` says so, while the block runs; its error fails the test."""

    def watch() -> None:
        try:
            assert wait_until(ready, 30), "the moment never came"
            action()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        yield
        watching.result(60)


def cancel(job: Job) -> str:
    """What a person's Cancel does."""
    return request_cancel(job, asker=ASKER)


def said(job: Job) -> str:
    """The whole log of a job."""
    return "\n".join(logs.read(job.pk))


def carry_out(job: Job) -> Job:
    """What a worker does with a message."""
    runner.run(job.pk)
    job.refresh_from_db()
    return job


@pytest.fixture
def this_worker(transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> None:
    """This process is a worker with logs of its own, and no message leaves it."""
    settings.PIHERDER_LOGS = tmp_path / "job-logs"
    monkeypatch.setattr(hints, "_publishers", [])
    monkeypatch.setattr(retention, "clock_synchronised", lambda: True)
    me = node.become("celery@test")
    WorkerNode.objects.create(boot=me.boot, name=me.name, pid=os.getpid(), slots=2)


@pytest.fixture
def root(this_worker: None, tmp_path: Path) -> BackupRoot:
    """A marked default root."""
    row = BackupRoot.objects.create(path=str(tmp_path / "root"), is_default=True)
    Path(row.path).mkdir()
    create_marker(Path(row.path), settings.PIHERDER_INSTALL_ID, row.marker.hex)
    return row


MakePi = Callable[..., Pi]


@pytest.fixture
def make_pi(tmp_path: Path, root: BackupRoot, login_key: tuple[str, str]) -> Iterator[MakePi]:
    """`make_pi(name, **options of the sshd)`; with `start=False` the host is down."""
    started: list[Sshd] = []

    def make(name: str = "pi1", *, start: bool = True, **options: Any) -> Pi:
        server = Sshd(tmp_path / name, name, options=SshdOptions(**options))
        server.add_key(login_key[1])
        started.append(server.start() if start else server)
        key = Credential.objects.create(
            name=name, public_key=login_key[1], fingerprint="x", private_key_sealed=seal_secret(login_key[0])
        )
        host = Host.objects.create(
            name=name,
            address="127.0.0.1",
            port=server.port,
            user=server.user,
            credential=key,
            copy_lock=str(server.folder),
        )
        pin = server.host_key
        HostKey.objects.create(host=host, key_type=pin.key_type, public=pin.public_base64, fingerprint=pin.fingerprint)
        data = fill(tmp_path / f"data of {name}")
        source = Source.objects.create(host=host, path=str(data), folder=source_folder_name(str(data)))
        return Pi(host, source, server, data, root)

    yield make
    for server in started:
        server.stop()


@pytest.fixture
def pi(make_pi: MakePi) -> Pi:
    """One host."""
    return make_pi()


@pytest.fixture
def off_pi(make_pi: MakePi) -> Pi:
    """One host that is down."""
    return make_pi(start=False)


def contents(tree: Path) -> dict[bytes, tuple[object, ...]]:
    """Name → kind, mode, owner, time, size and content of everything below `tree`."""
    found: dict[bytes, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(tree)):
        for name in (*folders, *files):
            path = folder + b"/" + name
            stat = os.lstat(path)
            regular = os.path.isfile(path) and not os.path.islink(path)
            data: object = (
                Path(os.fsdecode(path)).read_bytes() if regular else os.path.islink(path) and os.readlink(path)
            )
            times = 0 if os.path.isdir(path) else stat.st_mtime_ns
            found[os.path.relpath(path, os.fsencode(tree))] = (stat.st_mode, stat.st_uid, times, data)
    return found


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 70 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small filesystem")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=70m,nr_inodes=5000", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
