"""The backup disk is full, or is not there."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure, Status
from tests.faults.hosts.conftest import visit
from tests.faults.hosts.machine import HostHerd, Machine, new_root
from tests.hosts.rsync.conftest import needs_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_django.plugin import DjangoDbBlocker

    from hosts.models import BackupRoot

pytestmark = [pytest.mark.fault, needs_root]


@dataclass(frozen=True, slots=True)
class Disk:
    """A small filesystem (`store`) that can be mounted at `place`, unmounted, and mounted again with what it holds."""

    store: Path
    place: Path

    def mount(self) -> None:
        """There."""
        subprocess.run(["mount", "--bind", str(self.store), str(self.place)], check=True)

    def unmount(self) -> None:
        """Gone, although somebody may still have files of it open."""
        subprocess.run(["umount", "-l", str(self.place)], check=True)

    def fill(self) -> None:
        """No byte is free."""
        with (self.place / "filler").open("wb", buffering=0) as handle, suppress(OSError):
            while handle.write(bytes(1 << 20)):
                pass

    def free(self) -> None:
        """As it was."""
        (self.place / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A backup disk of 110 MiB."""
    disk = Disk(tmp_path / "store", tmp_path / "disk")
    disk.store.mkdir()
    disk.place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=110m,nr_inodes=20000", "tmpfs", str(disk.store)], check=True)
    disk.mount()
    yield disk
    while os.path.ismount(disk.place):
        disk.unmount()
    subprocess.run(["umount", "-l", str(disk.store)], check=True)


@pytest.fixture
def herd(disk: Disk, shared_host_herd: HostHerd, django_db_blocker: DjangoDbBlocker) -> Iterator[HostHerd]:
    """The disk outlives the look at what is left."""
    yield from visit(shared_host_herd, django_db_blocker)


@pytest.fixture
def root(disk: Disk, herd: HostHerd) -> BackupRoot:
    """The root is the disk."""
    return new_root(disk.place)


def test_full_in_mid_rsync(pi: Machine, disk: Disk) -> None:  # case C09
    pi.herd.worker()
    job = pi.copying(kib=1000, megabytes=12)
    disk.fill()
    job = pi.herd.ended(job)
    disk.free()
    assert (job.status, job.failure) == (Status.FAILED, Failure.NO_SPACE)
    assert "There is no space left" in job.error


def test_full_before(pi: Machine, disk: Disk) -> None:  # case C09
    pi.herd.worker()
    disk.fill()
    job = pi.done()
    disk.free()
    assert (job.status, job.failure) == (Status.FAILED, Failure.NO_SPACE)


def test_not_mounted(pi: Machine, disk: Disk) -> None:
    pi.herd.worker()
    disk.unmount()
    job = pi.done()
    written = list(disk.place.iterdir())
    disk.mount()
    assert (job.status, job.failure, written) == (Status.FAILED, Failure.NOT_MOUNTED, [])
    assert "not mounted" in job.error


def test_unmounted_in_mid_rsync(pi: Machine, disk: Disk) -> None:
    pi.herd.worker()
    job = pi.copying(kib=1000, megabytes=5)
    disk.unmount()
    job = pi.herd.ended(job)
    written = list(disk.place.iterdir())
    disk.mount()
    assert (job.status, job.failure, written) == (Status.FAILED, Failure.NOT_MOUNTED, []), job.error
    assert "not mounted" in job.error


def test_unmounted_in_mid_verify(pi: Machine, disk: Disk) -> None:
    pi.herd.worker()
    pi.herd.order("verify", "halt")
    job = pi.ask("backup_verify")
    pi.herd.until(lambda: pi.herd.struck("verify"), "the disk was found and is about to be read")
    disk.unmount()
    pi.herd.go_on("verify")
    job = pi.herd.ended(job)
    disk.mount()
    assert (job.status, job.failure) == (Status.FAILED, Failure.NOT_MOUNTED), job.error
    assert [generation.verify_problem for generation in pi.good()] == [""]


@pytest.mark.parametrize("kind", ["restore", "backup_verify"])
def test_not_mounted_for_other_kinds(pi: Machine, disk: Disk, kind: str) -> None:
    pi.herd.worker()
    disk.unmount()
    params = {"restore": {"source": pi.source.path}}
    job = pi.done(kind, **params.get(kind, {}))
    disk.mount()
    assert (job.status, job.failure) == (Status.FAILED, Failure.NOT_MOUNTED), job.error
