"""kill -9 at every point of a job's way: before the claim it runs once later, after it fails, finished it stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure, Job, Status
from tests.faults.matter import COPY, SLEEP

if TYPE_CHECKING:
    from tests.faults.herd import Herd
    from tests.faults.matter import Matter

pytestmark = pytest.mark.fault
VICTIMS = pytest.mark.parametrize("victim", ["self", "node"])


def strike(herd: Herd, work: Matter, point: str, victim: str) -> Job:
    """The job, once it met its end at `point` and a worker is there again."""
    worker = herd.worker()
    herd.order(point, victim)
    job = work.ask(herd)
    herd.until(lambda: herd.struck(point), point)
    if victim == "node":
        worker.wait()
    herd.worker()
    return herd.ended(job)


@VICTIMS
@pytest.mark.parametrize("point", ["message", "pick-up"])
def test_before_the_claim_it_runs_once_later(herd: Herd, point: str, victim: str) -> None:
    job = strike(herd, SLEEP, point, victim)
    assert job.status == Status.SUCCEEDED
    assert list(herd.attempts(job).values()) == [2]


@VICTIMS
def test_with_mutex_and_fence_in_hand_it_runs_once_later(herd: Herd, victim: str) -> None:
    job = strike(herd, COPY, "lock", victim)
    assert job.status == Status.SUCCEEDED
    assert list(herd.attempts(job).values()) == [2]


@VICTIMS
def test_after_the_claim_it_fails_and_never_runs(herd: Herd, work: Matter, victim: str) -> None:
    job = strike(herd, work, "claim", victim)
    assert (job.status, job.failure) == (Status.FAILED, Failure.WORKER_LOST)
    assert herd.attempts(job) == {}


@VICTIMS
@pytest.mark.parametrize("point", ["finish:begin", "finish:inside"])
def test_before_the_end_is_committed_it_fails(herd: Herd, point: str, victim: str) -> None:
    job = strike(herd, COPY, point, victim)
    assert (job.status, job.failure) == (Status.FAILED, Failure.WORKER_LOST)
    assert len(herd.attempts(job)) == 1


@VICTIMS
def test_after_the_end_is_committed_it_stays_succeeded(herd: Herd, victim: str) -> None:
    job = strike(herd, COPY, "finish:done", victim)
    assert job.status == Status.SUCCEEDED
    assert len(herd.attempts(job)) == 1


@pytest.mark.parametrize("point", ["publish:before", "publish:after"])
def test_a_door_that_dies_around_the_message_loses_no_job(herd: Herd, point: str) -> None:
    herd.worker()
    herd.order(point, "self")
    assert herd.door(seconds=0.2).returncode == -9
    job = Job.objects.latest("pk")
    assert herd.ended(job).status == Status.SUCCEEDED
    assert len(herd.attempts(job)) == 1


def test_a_message_waits_for_a_worker(herd: Herd) -> None:
    herd.only()
    job = herd.ask()
    assert herd.state(job) == Status.PENDING
    herd.worker()
    assert herd.ended(job).status == Status.SUCCEEDED
