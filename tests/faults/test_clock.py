"""A wall clock that jumps by hours, under everything that waits or watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs import mutex
from jobs.models import Failure, Job, Status, WaitingOn
from tests.faults.matter import COPY

if TYPE_CHECKING:
    from tests.faults.herd import Herd

pytestmark = [pytest.mark.fault, pytest.mark.parametrize("hours", [3, -3])]


def test_nobody_is_taken_for_dead(herd: Herd, hours: int) -> None:
    worker, other = herd.workers("alpha", "beta")
    beat = herd.beat()
    job = COPY.working(herd, seconds=6)
    herd.shift_clock(hours)
    assert herd.ended(job).status == Status.SUCCEEDED
    assert len(herd.attempts(job)) == 1
    assert all(process.running for process in (worker, other, beat))


def test_a_dead_worker_is_still_found(herd: Herd, hours: int) -> None:
    worker = herd.worker()
    job = herd.works(herd.ask(seconds=60))
    herd.worker("beta")  # now: either of two would take the job
    herd.shift_clock(hours)
    worker.kill()
    assert herd.ended(job).failure == Failure.WORKER_LOST


def test_a_lost_message_is_still_found(herd: Herd, hours: int) -> None:
    herd.only()
    job = herd.ask()
    mutex.client().flushall()
    herd.shift_clock(hours)
    herd.worker()
    assert herd.ended(job).status == Status.SUCCEEDED


def test_a_waiting_job_neither_gives_up_nor_sleeps_on(herd: Herd, hours: int) -> None:
    herd.worker()
    host = herd.host()
    herd.host_down(host)
    job = COPY.ask(herd)
    herd.until(lambda: Job.objects.filter(pk=job.pk, waiting_on=WaitingOn.HOST).exists(), "waits")
    probe = Job.objects.get(pk=job.pk).next_probe_at
    herd.shift_clock(hours)
    herd.until(lambda: Job.objects.get(pk=job.pk).next_probe_at != probe, "probed after the jump")
    assert herd.state(job) == Status.PENDING
    herd.host_down(host, down=False)
    assert herd.ended(job).status == Status.SUCCEEDED
