"""The connection is cut, or the host stands still, in mid rsync."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure, Status
from tests.faults.hosts.tempo import CONFIRM_SEC
from tests.hosts.rsync.conftest import programs_naming

if TYPE_CHECKING:
    from jobs.models import Job
    from tests.faults.hosts.machine import Machine

pytestmark = pytest.mark.fault
BOUND = CONFIRM_SEC + 30  # seconds; a cancel that cannot be confirmed is no longer than this on a busy machine


def frozen(pi: Machine) -> Job:
    """A backup in mid rsync on a host that has stopped to answer."""
    pi.herd.worker()
    job = pi.copying()
    pi.sshd.freeze()
    return job


def assert_unconfirmed(pi: Machine, job: Job) -> None:
    """It ended in bounded time and says what it does not know."""
    job = pi.herd.ended(job, BOUND)
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.CANCEL_UNCONFIRMED), pi.herd.report()
    assert "could not be asked" in job.summary


def test_connection_cut(pi: Machine) -> None:
    pi.herd.worker()
    job = pi.copying()
    pi.sshd.cut()
    job = pi.herd.ended(job)
    assert (job.status, job.failure) == (Status.FAILED, Failure.LOST_CONTACT)
    assert "was lost during the copy" in job.error


def test_host_loses_power(pi: Machine) -> None:
    pi.herd.worker()
    job = pi.copying()
    pi.sshd.kill()
    job = pi.herd.ended(job)
    assert (job.status, job.failure) == (Status.FAILED, Failure.LOST_CONTACT)


def test_frozen_and_cancelled(pi: Machine) -> None:
    job = frozen(pi)
    pi.herd.cancel(job)
    assert_unconfirmed(pi, job)


def test_frozen_cancelled_and_gone(pi: Machine) -> None:
    job = frozen(pi)
    pi.herd.cancel(job)
    pi.herd.until(lambda: not programs_naming(pi.folder), "its rsync has ended here")
    pi.sshd.kill()
    assert_unconfirmed(pi, job)


def test_frozen_cancelled_and_thawed(pi: Machine) -> None:
    job = frozen(pi)
    pi.herd.cancel(job)
    pi.herd.until(lambda: not programs_naming(pi.folder), "its rsync has ended here")
    pi.sshd.thaw()
    job = pi.herd.ended(job)
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.NONE), pi.herd.report()
    assert pi.servers() == []


def test_frozen_for_a_while(pi: Machine) -> None:
    pi.herd.worker()
    job = pi.copying(kib=1000, megabytes=4)
    pi.sshd.freeze()
    pi.herd.let_pass(3)
    pi.sshd.thaw()
    assert pi.herd.ended(job).status == Status.SUCCEEDED
    assert pi.same()
