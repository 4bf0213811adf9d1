"""Messages that come twice, too late, too early, or for nothing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from jobs import tasks
from jobs.models import Failure, Job, JobEvent, Status, WaitingOn
from piherder.celery import app
from tests.faults.matter import COPY, OTHER_COPY, SLEEP

if TYPE_CHECKING:
    from tests.faults.herd import Herd
    from tests.faults.matter import Matter

pytestmark = pytest.mark.fault


def send(job: Job) -> None:
    """One more message that names the job."""
    app.send_task("exclusive_job", args=[job.pk], queue=job.queue)


def received(text: str) -> int:
    """Messages that a worker's log says it got."""
    return text.count("] received")


def test_delivered_twice_at_once(herd: Herd, work: Matter) -> None:
    herd.worker()
    herd.order("pick-up:before", "halt")
    job = work.ask(herd, seconds=1.5)
    herd.until(lambda: herd.struck("pick-up:before"), "the first copy has found the job pending")
    send(job)
    herd.works(job)
    herd.go_on("pick-up:before")
    assert herd.ended(job).status == Status.SUCCEEDED
    assert len(herd.attempts(job)) == 1


def test_delivered_many_times_while_it_runs_and_after(herd: Herd) -> None:
    herd.worker()
    job = herd.works(herd.ask(seconds=1.5))
    for _ in range(4):
        send(job)
    assert herd.ended(job).status == Status.SUCCEEDED
    send(job)
    assert herd.ended(herd.ask()).status == Status.SUCCEEDED
    assert len(herd.attempts(job)) == 1


def test_for_a_job_deleted_meanwhile(herd: Herd) -> None:
    herd.only()
    gone = herd.ask()
    herd.asked.clear()
    number = gone.pk
    gone.delete()
    worker = herd.worker()
    assert herd.ended(herd.ask()).status == Status.SUCCEEDED
    assert tasks.queue_depths(["celery"]) == {"celery": 0}
    assert "Traceback" not in worker.output
    assert not JobEvent.objects.filter(job_id=number).exists()


def test_for_a_kind_that_no_longer_exists(herd: Herd) -> None:
    herd.worker()
    job = Job.objects.create(kind="gone", params_digest="")
    tasks.publish(job.pk)
    assert herd.ended(job).failure == Failure.UNKNOWN_KIND
    assert Job.objects.get(pk=job.pk).error.startswith("There is no kind of work called gone")


def test_work_beyond_the_visibility_time_out_runs_once(herd: Herd) -> None:  # case H01
    worker = herd.worker("gamma", PIHERDER_VISIBILITY_SEC="5")
    herd.only(worker)
    job = COPY.working(herd, seconds=16)  # the transport looks for old messages every 10 s
    before = received(worker.output)
    herd.until(lambda: received(worker.output) > before, "it was delivered again")
    assert herd.state(job) == Status.RUNNING
    assert herd.ended(job).status == Status.SUCCEEDED
    assert list(herd.attempts(job).values()) == [160]


def test_time_limit(herd: Herd) -> None:
    herd.worker()
    job = herd.ended(herd.ask(seconds=60, limit=1))
    assert (job.failure, job.error) == (Failure.TIME_LIMIT, "Stopped at its time limit.")


def test_short_jobs_pass_a_long_one(herd: Herd) -> None:  # case H17
    herd.worker()
    long = SLEEP.working(herd)
    short = [herd.ask() for _ in range(6)]
    assert [herd.ended(job).status for job in short] == [Status.SUCCEEDED] * 6
    assert herd.state(long) == Status.RUNNING
    herd.cancel(long)
    herd.ended(long)


def test_a_request_that_is_rolled_back_was_never_there(herd: Herd) -> None:  # case H15
    worker = herd.worker()
    before = received(worker.output)
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        job = herd.ask()
        raise ZeroDivisionError
    herd.asked.clear()
    assert not Job.objects.filter(pk=job.pk).exists()
    assert herd.ended(herd.ask()).status == Status.SUCCEEDED
    assert received(worker.output) == before + 1


def test_a_request_runs_only_after_its_commit(herd: Herd) -> None:  # case H15
    worker = herd.worker()
    before = received(worker.output)
    with transaction.atomic():
        job = herd.ask()
        assert tasks.queue_depths(["celery"]) == {"celery": 0}
        assert received(worker.output) == before
    assert herd.ended(job).status == Status.SUCCEEDED


def test_a_second_copy_waits_for_the_first_without_a_slot(herd: Herd) -> None:
    herd.worker()
    first = COPY.working(herd, seconds=4)
    second = OTHER_COPY.ask(herd)
    herd.until(lambda: Job.objects.filter(pk=second.pk, waiting_on=WaitingOn.LOCK).exists(), "waits")
    assert herd.ended(herd.ask()).status == Status.SUCCEEDED
    assert herd.ended(first).status == Status.SUCCEEDED
    assert herd.ended(second).status == Status.SUCCEEDED
    assert Job.objects.filter(pk=second.pk, started_at__gte=herd.ended(first).finished_at).exists()


def test_a_host_that_comes_back_gets_its_job(herd: Herd) -> None:
    herd.worker()
    herd.host_down(herd.host())
    job = COPY.ask(herd)
    herd.until(lambda: Job.objects.filter(pk=job.pk, waiting_on=WaitingOn.HOST).exists(), "waits")
    herd.host_down(herd.host(), down=False)
    assert herd.ended(job).status == Status.SUCCEEDED
