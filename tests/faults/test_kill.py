"""Processes that are killed: nothing stays running, nothing runs twice, and the node's name stays on the row."""

from __future__ import annotations

import os
import signal
import urllib.request
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest

from jobs.models import Failure, Job, Status, WorkerNode
from piherder.house.ports import free_port
from tests.faults.matter import COPY

if TYPE_CHECKING:
    from tests.faults.herd import Herd
    from tests.faults.matter import Matter

pytestmark = pytest.mark.fault


def assert_lost(herd: Herd, job: Job) -> None:
    """It failed in words, keeps its node, ran once."""
    job = herd.ended(job)
    assert (job.status, job.failure, job.node) == (Status.FAILED, Failure.WORKER_LOST, "alpha@faults")
    assert job.error == "The worker alpha@faults was lost while the job ran; it was not resumed. Run it again."
    assert len(herd.attempts(job)) == 1


def carrier(herd: Herd, job: Job) -> int:
    """Pid of the pool child that has the job's log open."""
    for pid in herd.worker().children:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        if any(link.endswith(f"/{job.pk}.log") for link in links):
            return pid
    raise AssertionError(f"no child carries {job}")


def answers(port: int) -> bool:
    """True when a page came back, whatever it says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/admin/login/", timeout=10) as page:
            return bool(page.status)
    except HTTPError as error:
        error.close()
        return True


def test_pool_child(herd: Herd, work: Matter) -> None:
    worker = herd.worker()
    job = work.working(herd)
    os.kill(carrier(herd, job), signal.SIGKILL)
    assert_lost(herd, job)
    assert worker.running


def test_worker_that_is_restarted(herd: Herd) -> None:
    worker = herd.worker()
    job = COPY.working(herd)
    worker.kill()
    herd.worker()
    assert_lost(herd, job)


def test_worker_that_stays_away_beside_another(herd: Herd, work: Matter) -> None:
    worker = herd.worker()
    job = work.working(herd)
    other = herd.worker("beta")
    worker.kill()
    assert_lost(herd, job)
    assert other.running


def test_worker_that_stays_away_with_only_beat_left(herd: Herd) -> None:
    herd.beat()
    worker = herd.worker()
    job = COPY.working(herd)
    worker.kill()
    assert_lost(herd, job)


def test_a_queued_job_outlives_its_worker(herd: Herd) -> None:
    worker = herd.worker()
    held = [herd.works(herd.ask(seconds=60)) for _ in range(2)]
    queued = herd.ask()
    worker.kill()
    herd.worker()
    assert herd.ended(queued).status == Status.SUCCEEDED
    for job in held:
        assert_lost(herd, job)


def test_web(herd: Herd) -> None:
    port = free_port()
    web = herd.web(port)
    herd.until(lambda: answers(port), "pages")
    herd.worker()
    job = herd.works(herd.ask(seconds=2))
    web.kill()
    assert herd.ended(job).status == Status.SUCCEEDED
    herd.web(port)
    herd.until(lambda: answers(port), "pages again")


def test_beat_alone_fails_nothing(herd: Herd) -> None:
    herd.worker()
    beat = herd.beat()
    job = herd.works(herd.ask(seconds=2))
    beat.kill()
    assert herd.ended(job).status == Status.SUCCEEDED


def test_an_old_boot_is_marked_dead_with_its_reason(herd: Herd) -> None:
    worker = herd.worker()
    pid = worker.pid
    worker.kill()
    herd.worker()
    old = WorkerNode.objects.filter(pid=pid).latest("started_at")
    assert old.dead_at is not None
    assert old.dead_why == "replaced by a new start of the same name"
