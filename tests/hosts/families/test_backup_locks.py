"""Never two copies on one host: each lock is taken away in turn, and the next one holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from hosts.models import BackupRoot
from hosts.store.root import create_marker
from jobs.models import Job, Lane, Status, WaitingOn
from jobs.mutex import client
from jobs.services import Refused

from .conftest import cancel, carry_out, meanwhile

if TYPE_CHECKING:
    from .conftest import Pi


class Second:
    """Another copy that wants to begin while one runs; remembers why it had to wait, each time it tried."""

    def __init__(self, pi: Pi, first: Job) -> None:
        self.pi, self.first, self.heard = pi, first, list[str]()

    def attempt(self) -> bool:
        """Try with all locks, without the fence, and without the mutex too; then end the first copy."""
        Lane.objects.filter(job=self.first).exclude(name=Lane.FENCE).delete()
        job = self.pi.request("restore", source=self.pi.source.path, dry_run=True)
        self.tries(job)
        Lane.objects.filter(name=Lane.FENCE).delete()
        self.tries(job)
        client().flushdb()
        self.tries(job)
        cancel(job)
        return bool(cancel(self.first))

    def tries(self, job: Job) -> None:
        carry_out(job)
        assert (job.status, job.waiting_on) == (Status.PENDING, WaitingOn.LOCK)
        self.heard.append(job.waiting_why)


@pytest.mark.parametrize(
    ("elsewhere", "last"),
    [(False, "Another copy works in pi1's backup folder on this server."), (True, "Another copy is running on pi1.")],
    ids=["one disk, one folder lock", "two disks, the lock of the host"],
)
def test_each_lock_holds_when_the_ones_before_it_are_gone(pi: Pi, tmp_path: Path, elsewhere: bool, last: str) -> None:
    pi.keep()
    pi.slow()
    if elsewhere:
        use_another_root(pi, tmp_path / "other")
    first = pi.request("backup")
    second = Second(pi, first)
    with meanwhile(pi.is_copying, second.attempt):
        carry_out(first)
    name = f"Job {first.pk}"
    assert second.heard == [f"{name} (backup) is copying on this host.", f"{name} holds the host's copy lock.", last]
    assert first.status == Status.CANCELLED


def use_another_root(pi: Pi, folder: Path) -> None:
    folder.mkdir()
    other = BackupRoot.objects.create(path=str(folder))
    create_marker(folder, settings.PIHERDER_INSTALL_ID, other.marker.hex)
    pi.edit(backup_root=other)
    pi.root = other


def test_the_same_request_meets_the_job_that_is_there(pi: Pi) -> None:  # case C18
    assert pi.request("backup").pk == pi.request("backup").pk


def test_another_copy_of_the_host_is_refused_and_names_the_one_in_the_way(pi: Pi) -> None:
    job = pi.request("backup")
    with pytest.raises(Refused, match=f"{job.pk}") as refused:
        pi.request("restore", source=pi.source.path)
    assert refused.value.job == job


def test_a_job_of_a_paused_host_is_refused_and_one_that_waited_does_not_start(pi: Pi) -> None:
    job = pi.request("backup")
    pi.edit(paused_at=job.created_at, pause_reason="new disk")
    assert carry_out(job).status == Status.PENDING
    with pytest.raises(Refused, match=r"pi1 is paused \(new disk\): resume it first\."):
        pi.request("restore", source=pi.source.path)
    pi.edit(paused_at=None)
    assert carry_out(job).status == Status.SUCCEEDED


def test_a_removed_host_gets_no_job_and_keeps_its_generations(pi: Pi) -> None:
    kept = pi.keep()
    job = pi.request("backup")
    pi.edit(removed_at=job.created_at)
    assert carry_out(job).status == Status.PENDING
    with pytest.raises(Refused, match="it was removed or never added"):
        pi.request("backup")
    assert (pi.good(), Path(kept.path).is_dir()) == ([kept], True)
