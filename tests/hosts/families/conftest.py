"""A host of the herd on a real loopback sshd, a real backup root, and jobs carried out in this process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from hosts.families import retention
from hosts.models import BackupRoot, Credential, Generation, GenerationStatus, Host, HostKey, Source
from hosts.store.layout import source_folder_name
from hosts.store.root import create_marker
from hosts.vault import seal
from jobs import hints, node, runner
from jobs.models import Door, Job, WorkerNode
from jobs.services import Asker, request_job
from piherder.demo.sshd import Sshd, SshdOptions

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
        handle.truncate(20 << 20)
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


def carry_out(job: Job) -> Job:
    """What a worker does with a message."""
    runner.run(job.pk)
    job.refresh_from_db()
    return job


@pytest.fixture(autouse=True)
def this_worker(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is a worker, and no message leaves it."""
    monkeypatch.setattr(hints, "_publishers", [])
    monkeypatch.setattr(retention, "clock_synchronised", lambda: True)
    me = node.become("celery@test")
    WorkerNode.objects.create(boot=me.boot, name=me.name, pid=os.getpid(), slots=2)


@pytest.fixture
def root(tmp_path: Path) -> BackupRoot:
    """A marked default root."""
    row = BackupRoot.objects.create(path=str(tmp_path / "root"), is_default=True)
    Path(row.path).mkdir()
    create_marker(Path(row.path), settings.PIHERDER_INSTALL_ID, row.marker.hex)
    return row


MakePi = Callable[..., Pi]


@pytest.fixture
def make_pi(tmp_path: Path, root: BackupRoot, login_key: tuple[str, str]) -> Iterator[MakePi]:
    """`make_pi(name, **options of the sshd)`."""
    started: list[Sshd] = []

    def make(name: str = "pi1", **options: Any) -> Pi:
        server = Sshd(tmp_path / name, name, options=SshdOptions(**options))
        server.add_key(login_key[1])
        started.append(server.start())
        key = Credential.objects.create(
            name=name, public_key=login_key[1], fingerprint="x", private_key_sealed=seal(login_key[0])
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


def contents(tree: Path) -> dict[bytes, tuple[object, ...]]:
    """Name → kind, mode, owner, time, size and content of everything below `tree`."""
    found: dict[bytes, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(tree)):
        for name in (*folders, *files):
            path = folder + b"/" + name
            stat = os.lstat(path)
            regular = os.path.isfile(path) and not os.path.islink(path)
            data: object = Path(os.fsdecode(path)).read_bytes() if regular else os.path.islink(path) and os.readlink(path)
            times = 0 if os.path.isdir(path) else stat.st_mtime_ns
            found[os.path.relpath(path, os.fsencode(tree))] = (stat.st_mode, stat.st_uid, times, data)
    return found


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 2 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small filesystem")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=70m,nr_inodes=5000", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
