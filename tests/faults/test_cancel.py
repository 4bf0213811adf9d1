"""Cancel at each step: the row ends when nothing of the job is left, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure, Job, Status, WaitingOn
from jobs.services import Refused
from tests.faults.matter import COPY, OTHER_COPY

if TYPE_CHECKING:
    from tests.faults.herd import Herd
    from tests.faults.matter import Matter

pytestmark = pytest.mark.fault


def assert_cancelled(herd: Herd, job: Job) -> None:
    """It ended as the operator asked."""
    assert herd.ended(job).status == Status.CANCELLED, herd.report()
    job.refresh_from_db()
    assert job.summary.startswith("Cancelled")


def waits(herd: Herd, job: Job, on: WaitingOn) -> None:
    """It waits without a slot."""
    herd.until(lambda: Job.objects.filter(pk=job.pk, waiting_on=on, attempt=None).exists(), f"waits on {on}")


def test_queued(herd: Herd) -> None:
    herd.only()
    job = COPY.ask(herd)
    assert herd.cancel(job) == f"Job {job.pk} is cancelled; it had not started."
    assert_cancelled(herd, job)
    herd.worker()
    assert herd.ended(herd.ask()).status == Status.SUCCEEDED
    assert herd.attempts(job) == {}


def test_picked_up(herd: Herd, work: Matter) -> None:
    herd.worker()
    herd.order("pick-up", "halt")
    job = work.ask(herd)
    herd.until(lambda: herd.struck("pick-up"), "picked up")
    assert "is being cancelled" in herd.cancel(job)
    herd.go_on("pick-up")
    assert_cancelled(herd, job)
    assert herd.attempts(job) == {}


def test_running(herd: Herd, work: Matter) -> None:
    herd.worker()
    job = work.working(herd)
    herd.cancel(job)
    assert_cancelled(herd, job)
    steps = herd.attempts(job)
    assert sum(steps.values()) < 100
    assert herd.ended(herd.ask(seconds=0.5)).status == Status.SUCCEEDED
    assert herd.attempts(job) == steps


def test_running_and_stubborn_is_killed_with_its_process(herd: Herd) -> None:
    worker = herd.worker()
    job = COPY.working(herd, stubborn=True)
    pool = set(worker.children)
    herd.cancel(job)
    assert herd.ended(job).status in (Status.CANCELLED, Status.FAILED)
    herd.until(lambda: len(worker.children) == 2 and set(worker.children) != pool, "a fresh child")


@pytest.mark.parametrize("name", ["beta", "alpha"])
def test_of_a_dead_node(herd: Herd, name: str) -> None:
    worker = herd.worker()
    job = COPY.working(herd)
    worker.freeze()
    herd.cancel(job)
    worker.kill()
    herd.worker(name)
    assert herd.ended(job).failure == Failure.WORKER_LOST


def test_waiting_on_host(herd: Herd) -> None:
    herd.worker()
    herd.host_down(herd.host())
    job = COPY.ask(herd)
    waits(herd, job, WaitingOn.HOST)
    herd.cancel(job)
    assert_cancelled(herd, job)


def test_waiting_on_lock(herd: Herd) -> None:
    herd.worker()
    holder = COPY.working(herd)
    job = OTHER_COPY.ask(herd)
    waits(herd, job, WaitingOn.LOCK)
    herd.cancel(job)
    assert_cancelled(herd, job)
    herd.cancel(holder)
    assert_cancelled(herd, holder)


def test_finished_is_refused_in_words(herd: Herd) -> None:
    herd.worker()
    job = herd.ended(COPY.ask(herd))
    with pytest.raises(Refused, match=rf"Job {job.pk} is over \(succeeded\); there is nothing to cancel"):
        herd.cancel(job)
    assert herd.state(job) == Status.SUCCEEDED
