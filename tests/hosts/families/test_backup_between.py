"""What may be met before and between the sources of one backup: a lock that is taken, another disk, other mounts."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts.families import backup
from hosts.models import BackupRoot, GenerationStatus, Source
from hosts.store import root as disk
from jobs.models import Failure, Status
from jobs.registry import NotYet
from tests.hosts.rows import disk as mounted_disk
from tests.hosts.rows import know

from .conftest import said

if TYPE_CHECKING:
    from .conftest import Pi


@pytest.fixture
def hogged(pi: Pi) -> Pi:
    """A host with a second source, whose lock another copy takes when the first is done."""
    Source.objects.create(host=pi.host, path=f"{pi.data}/sub", folder="zz-second")
    return pi


def hog(pi: Pi, monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Hold the host's lock from the moment the first source is stored; the list gets who holds it."""
    holders: list[subprocess.Popen[bytes]] = []
    store = backup._publish

    def hold(*args: object) -> object:
        done = store(*args)  # type: ignore[arg-type]  # passed on as they are
        if not holders:
            argv = ["flock", "-n", str(pi.sshd.folder), "sh", "-c", "echo held; exec sleep 30"]
            holders.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
            assert holders[0].stdout is not None
            assert holders[0].stdout.readline() == b"held\n"
        return done

    monkeypatch.setattr(backup, "_publish", hold)
    return holders


def let_go(holders: list[subprocess.Popen[bytes]]) -> None:
    for holder in holders:
        holder.kill()
        holder.communicate()


def test_a_lock_taken_between_two_sources_is_waited_for(hogged: Pi, monkeypatch: pytest.MonkeyPatch) -> None:
    holders = hog(hogged, monkeypatch)
    monkeypatch.setattr(backup, "BUSY_WAITS", (0.1, 0.1))
    job = run_letting_go(hogged, holders, monkeypatch)
    assert (job, Source.objects.filter(generations__status=GenerationStatus.GOOD).count()) == (Status.SUCCEEDED, 2)


def run_letting_go(pi: Pi, holders: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> str:
    """The lock is free again once the first try of the second source has met it."""
    attempt = backup._copy

    def copy(*args: object) -> object:
        try:
            return attempt(*args)  # type: ignore[arg-type]  # passed on as they are
        except NotYet:
            let_go(holders)
            raise

    monkeypatch.setattr(backup, "_copy", copy)
    job = pi.run("backup")
    assert f"Trying {pi.data}/sub again in 0.1 s." in said(job)
    return job.status


def test_a_lock_that_stays_taken_is_a_failure_in_words(hogged: Pi, monkeypatch: pytest.MonkeyPatch) -> None:
    holders = hog(hogged, monkeypatch)
    monkeypatch.setattr(backup, "BUSY_WAITS", (0.1,))
    job = hogged.run("backup")
    let_go(holders)
    assert (job.status, job.failure) == (Status.FAILED, Failure.LOCK_TIMEOUT)
    assert job.error.startswith(f"1 of 2 sources failed. {hogged.data}/sub was not copied: ")
    assert len(hogged.good()) == 1


def test_what_the_disk_can_is_stored_when_it_changed_and_only_then(pi: Pi) -> None:
    pi.run("backup")
    first = BackupRoot.objects.get()
    assert first.capabilities["hard_links"] is True
    pi.run("backup")
    assert BackupRoot.objects.get().probed_at == first.probed_at


def test_a_disk_that_cannot_hold_generations_is_refused_before_anything_is_written(
    pi: Pi, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = disk.probe(Path(pi.root.path))
    monkeypatch.setattr(disk, "probe", lambda path: replace(able, hard_links=False, filesystem="exfat"))
    job = pi.run("backup")
    assert (job.failure, "(exfat) lacks hard links" in job.error) == (Failure.REFUSED, True)
    assert not pi.folder.exists()


def test_a_disk_mounted_read_only_is_said(pi: Pi, full_disk: Path) -> None:
    shutil.copy(Path(pi.root.path) / disk.MARKER, full_disk)
    BackupRoot.objects.update(path=str(full_disk))
    subprocess.run(["mount", "-o", "remount,ro", str(full_disk)], check=True)
    assert pi.run("backup").error == f"The backup root {full_disk} cannot be written: Read-only file system."


def test_another_filesystem_below_the_source_is_left_out_and_said(pi: Pi, full_disk: Path) -> None:  # case C21
    art = pi.data / "art"
    art.mkdir()
    subprocess.run(["mount", "--bind", str(full_disk), str(art)], check=True)
    (art / "other").write_text("on another disk")
    know(pi.host, disks=(mounted_disk(str(art), 10),))
    Source.objects.update(one_file_system=True)
    job = pi.run("backup")
    subprocess.run(["umount", str(art)], check=True)
    (kept,) = pi.good()
    assert kept.warnings == [f"not covered: other file system at {art}"]
    assert ((kept.path / "tree" / "art" / "other").exists(), "; 1 with warnings" in job.summary) == (False, True)
