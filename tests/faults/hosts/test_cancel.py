"""A backup is cancelled at each of its steps."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure, Job, Status, WaitingOn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.hosts.machine import Machine

pytestmark = pytest.mark.fault


def assert_cancelled(pi: Machine, job: Job, summary: str) -> None:
    """It ended as the operator asked, and nothing of it is left anywhere at that moment."""
    job = pi.herd.ended(job)
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.NONE), pi.herd.report()
    assert job.summary.startswith(summary)
    assert (pi.servers(), pi.herd.programs()) == ([], [])


def waits(pi: Machine, job: Job, on: WaitingOn) -> None:
    """It waits without a slot."""
    rows = Job.objects.filter(pk=job.pk, waiting_on=on, attempt=None, status=Status.PENDING)
    pi.herd.until(rows.exists, f"{job} waits on {on}")


@contextmanager
def copy_lock_of(pi: Machine) -> Iterator[None]:
    """Somebody else copies on the host."""
    argv = ["flock", "-n", str(pi.sshd.folder), "sh", "-c", "echo held; read _"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield
        other.communicate()


def test_queued(pi: Machine) -> None:
    pi.herd.only()
    job = pi.ask()
    pi.herd.cancel(job)
    assert_cancelled(pi, job, "Cancelled by tests")


def test_waiting_on_host(pi: Machine) -> None:
    pi.herd.worker()
    pi.sshd.kill()
    job = pi.ask()
    waits(pi, job, WaitingOn.HOST)
    pi.herd.cancel(job)
    assert_cancelled(pi, job, "Cancelled by tests")


def test_waiting_on_lock(pi: Machine) -> None:
    pi.herd.worker()
    with copy_lock_of(pi):
        job = pi.ask()
        waits(pi, job, WaitingOn.LOCK)
        pi.herd.cancel(job)
        assert_cancelled(pi, job, "Cancelled by tests")


def test_in_rsync(pi: Machine) -> None:
    pi.herd.worker()
    job = pi.copying()
    pi.herd.cancel(job)
    assert_cancelled(pi, job, "Cancelled; no process of the job is left.")


def test_in_a_restore(pi: Machine) -> None:
    pi.herd.worker()
    pi.slow(megabytes=4)
    pi.keep()
    pi.remember()
    goal = pi.sshd.folder / "restored"
    job = pi.moving(pi.ask("restore", source=pi.source.path, to_path=str(goal)))
    pi.herd.cancel(job)
    assert_cancelled(pi, job, "Cancelled; no process of the job is left.")


def hooked(pi: Machine) -> Job:
    """A backup in its hook; the one after it leaves a trace."""
    pi.herd.worker()
    begun = pi.sshd.folder / "begun"
    pi.edit(before_hook=f"touch {begun}; sleep 300", after_hook=f"touch {pi.sshd.folder / 'after'}")
    job = pi.ask()
    pi.herd.until(begun.exists, "the hook runs")
    return job


def test_in_a_hook(pi: Machine) -> None:
    job = hooked(pi)
    pi.herd.cancel(job)
    assert_cancelled(pi, job, "Cancelled; no process of the job is left.")
    assert (pi.sshd.folder / "after").exists()
    assert not any("sleep" in line for line in pi.leftovers())


def test_in_a_hook_on_a_host_that_went_away(pi: Machine) -> None:
    job = hooked(pi)
    pi.sshd.freeze()
    pi.herd.cancel(job)
    job = pi.herd.ended(job)
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.CANCEL_UNCONFIRMED), pi.herd.report()
    pi.sshd.stop()  # what could not be asked for is still there when the host wakes: that is what the job says
