"""Workers that are stopped, frozen, or started twice."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure, Job, Status
from tests.faults.matter import COPY

if TYPE_CHECKING:
    from tests.faults.herd import Herd
    from tests.faults.matter import Matter

pytestmark = pytest.mark.fault
STOPPED = "The worker alpha@faults was stopped; the job was not resumed. Run it again."
EXIT_DUPLICATE, EXIT_BURIED = 78, 70


def assert_stopped(job: Job) -> None:
    """It failed in words."""
    assert (job.status, job.failure, job.error) == (Status.FAILED, Failure.WORKER_STOPPED, STOPPED)


def test_a_warm_stop_lets_a_job_end_within_the_grace(herd: Herd) -> None:
    worker = herd.worker("gamma", PIHERDER_DRAIN_GRACE_SEC="30")
    herd.only(worker)
    job = COPY.working(herd, seconds=2)
    assert worker.stop() == 0
    assert herd.ended(job).status == Status.SUCCEEDED


def test_a_warm_stop_ends_a_job_after_the_grace(herd: Herd, work: Matter) -> None:
    worker = herd.worker()
    job = work.working(herd)
    assert worker.stop() == 0
    assert_stopped(herd.ended(job))


def test_a_stopping_worker_starts_nothing_new(herd: Herd) -> None:
    worker = herd.worker()
    running = [herd.works(herd.ask(seconds=60)) for _ in range(2)]
    queued = herd.ask()
    worker.stop()
    assert [herd.ended(job).failure for job in running] == [Failure.WORKER_STOPPED] * 2
    assert herd.state(queued) == Status.PENDING
    herd.worker()
    assert herd.ended(queued).status == Status.SUCCEEDED


def test_a_cold_stop_ends_jobs_at_once(herd: Herd) -> None:
    worker = herd.worker()
    job = COPY.working(herd)
    worker.send(signal.SIGQUIT)
    worker.wait()
    assert_stopped(herd.ended(job))
    assert len(herd.attempts(job)) == 1


def test_a_stop_that_becomes_a_kill_fails_the_job_as_lost(herd: Herd) -> None:
    worker = herd.worker("gamma", PIHERDER_DRAIN_GRACE_SEC="60")
    herd.only(worker)
    job = herd.works(herd.ask(seconds=60))
    worker.send(signal.SIGTERM)
    herd.until(lambda: "Warm shutdown" in worker.output or "shutdown" in worker.output, "it began to stop")
    worker.kill()
    herd.worker()
    assert herd.ended(job).failure == Failure.WORKER_LOST


def test_a_frozen_worker_loses_its_job_and_writes_nothing_late(herd: Herd, work: Matter) -> None:
    worker = herd.worker()
    herd.order("finish:begin", "halt")
    herd.order("finish:over", "halt")
    job = work.ask(herd)
    herd.until(lambda: herd.struck("finish:begin"), "about to finish")
    herd.worker("beta")
    worker.freeze()
    herd.go_on("finish:begin")
    lost = herd.ended(job)
    assert lost.failure == Failure.WORKER_LOST
    worker.thaw_children()
    herd.until(lambda: herd.struck("finish:over"), "the late finish was tried")
    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.finished_at) == (Status.FAILED, lost.finished_at)
    worker.thaw()
    assert worker.wait() == EXIT_BURIED


def test_a_buried_worker_comes_back_with_its_supervisor(herd: Herd) -> None:
    worker = herd.worker()
    worker.kept = True
    herd.worker("beta")
    worker.freeze()
    herd.until(lambda: herd.beats(worker) == -1, "buried")
    worker.thaw()
    herd.until(lambda: worker.starts > 1 and herd.beats(worker) > 0, "a fresh boot beats")


def test_a_second_worker_of_one_name_refuses_to_start(herd: Herd) -> None:
    herd.worker()
    job = COPY.working(herd, seconds=5)
    second = herd.starting("alpha")
    assert second.wait() == EXIT_DUPLICATE
    assert "A worker named alpha@faults is already running: start this one with another name" in second.output
    assert herd.ended(job).status == Status.SUCCEEDED
