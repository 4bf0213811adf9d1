"""Redis goes away, forgets everything, or is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs import mutex
from jobs.models import Status
from tests.faults.matter import COPY, SLEEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.models import Job
    from tests.faults.herd import Herd

pytestmark = pytest.mark.fault


def stop_for_a_while(herd: Herd) -> None:
    """Away and back with its data."""
    herd.redis.kill()
    herd.redis.start()


def restart_empty(herd: Herd) -> None:
    """Away and back without its data."""
    herd.redis.kill()
    herd.redis.wipe()
    herd.redis.start()


def flush(herd: Herd) -> None:
    """There, and forgot everything."""
    mutex.client().flushall()


FORGET = pytest.mark.parametrize("fault", [stop_for_a_while, restart_empty, flush], ids=lambda f: f.__name__)


def kept_worker(herd: Herd) -> None:
    """A worker that is started again when it gives up, as every installation does."""
    herd.worker().kept = True


def assert_ran_once(herd: Herd, *jobs: Job) -> None:
    """All succeeded, each in one attempt."""
    assert [herd.ended(job).status for job in jobs] == [Status.SUCCEEDED] * len(jobs)
    assert [len(herd.attempts(job)) for job in jobs] == [1] * len(jobs)


@FORGET
def test_two_jobs_of_different_length_go_on(herd: Herd, fault: Callable[[Herd], None]) -> None:
    kept_worker(herd)
    long, short = COPY.working(herd, seconds=7), SLEEP.working(herd, seconds=3)
    fault(herd)
    assert_ran_once(herd, short, long)


@FORGET
def test_queued_jobs_run_afterwards(herd: Herd, fault: Callable[[Herd], None]) -> None:  # case H05, H06
    kept_worker(herd)
    running = [SLEEP.working(herd, seconds=3) for _ in range(2)]
    queued = [COPY.ask(herd), *(SLEEP.ask(herd) for _ in range(2))]
    fault(herd)
    assert_ran_once(herd, *running, *queued)


@FORGET
def test_an_idle_worker_is_not_deaf_afterwards(herd: Herd, fault: Callable[[Herd], None]) -> None:  # case H05
    kept_worker(herd)
    fault(herd)
    assert_ran_once(herd, herd.ask())


def test_a_mutex_that_was_forgotten_is_set_again(herd: Herd) -> None:
    herd.worker()
    job = COPY.working(herd, seconds=8)
    token = f"{job.pk}:{job.attempt}"
    assert mutex.client().get(mutex.key(job.host_id or 0)) == token
    flush(herd)
    herd.until(lambda: mutex.client().get(mutex.key(job.host_id or 0)) == token, "our key is back", 6)
    assert_ran_once(herd, job)


def test_a_request_without_redis_is_saved_and_runs_later(herd: Herd) -> None:
    kept_worker(herd)
    herd.redis.kill()
    job = COPY.ask(herd)
    assert (job.status, herd.attempts(job)) == (Status.PENDING, {})
    herd.redis.start()
    assert_ran_once(herd, job)


def test_a_full_redis_delays_and_loses_nothing(herd: Herd) -> None:  # case H18
    kept_worker(herd)
    mutex.client().config_set("maxmemory", 1)
    job = COPY.ask(herd)
    job.refresh_from_db()
    assert (job.status, job.published_at) == (Status.PENDING, None)
    mutex.client().config_set("maxmemory", 0)
    assert_ran_once(herd, job)
