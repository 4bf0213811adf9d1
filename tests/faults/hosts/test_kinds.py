"""The other kinds meet the faults that a backup meets, and a backup those of its last moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hosts.models import Generation
from jobs.models import Failure, Job, Status
from tests.faults.hosts.machine import kill
from tests.faults.test_kill import carrier
from tests.hosts.families.conftest import contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.hosts.machine import Machine

pytestmark = pytest.mark.fault


def goal(pi: Machine) -> Path:
    """Where restores of these tests go."""
    return pi.sshd.folder / "restored"


def restoring(pi: Machine) -> Job:
    """A restore in mid rsync."""
    pi.herd.worker()
    pi.slow(megabytes=4)
    pi.keep()
    pi.remember()
    return pi.moving(pi.ask("restore", source=pi.source.path, to_path=str(goal(pi))))


def kill_worker(pi: Machine, job: Job) -> None:
    """And its supervisor starts it again."""
    pi.herd.worker().kill()
    pi.herd.worker()


def kill_child(pi: Machine, job: Job) -> None:
    """The worker lives."""
    kill(carrier(pi.herd, job))


def cut(pi: Machine, job: Job) -> None:
    """The network fails."""
    pi.sshd.cut()


@pytest.mark.parametrize(
    ("fault", "failure"),
    [(kill_worker, Failure.WORKER_LOST), (kill_child, Failure.WORKER_LOST), (cut, Failure.LOST_CONTACT)],
    ids=["worker", "child", "cut"],
)
def test_restore(pi: Machine, fault: Callable[[Machine, Job], None], failure: Failure) -> None:
    job = restoring(pi)
    fault(pi, job)
    assert pi.herd.ended(job).failure == failure
    pi.edit(bandwidth_kib=0)
    assert pi.done("restore", source=pi.source.path, to_path=str(goal(pi))).status == Status.SUCCEEDED
    assert contents(goal(pi)) == contents(pi.data)


@pytest.mark.parametrize(("point", "whole"), [("rename:before", 0), ("rename:after", 1)])
def test_backup_killed_around_its_rename(pi: Machine, point: str, whole: int) -> None:
    pi.herd.worker()
    pi.herd.order(point, "self")
    job = pi.done()
    assert (job.failure, len(pi.good())) == (Failure.WORKER_LOST, len(pi.kept))
    assert pi.done().status == Status.SUCCEEDED
    assert len(pi.good()) == len(pi.kept) + whole + 1


def test_verify_killed(pi: Machine) -> None:
    pi.herd.worker()
    pi.herd.order("verify", "self")
    assert pi.done("backup_verify").failure == Failure.WORKER_LOST
    assert pi.done("backup_verify").status == Status.SUCCEEDED
    assert Generation.objects.get(source=pi.source).verified_at is not None


def test_retention_takes_nothing_of_a_host_in_mid_rsync(pi: Machine) -> None:
    pi.herd.worker()
    job = pi.copying()
    pi.sshd.freeze()  # so that the copy is still under way then
    retention = pi.herd.ended(pi.herd.ask("retention"))
    assert (retention.status in (Status.SUCCEEDED, Status.FAILED), pi.touched()) == (True, [])
    pi.herd.cancel(job)
    pi.sshd.thaw()
    assert pi.herd.ended(job).status == Status.CANCELLED
