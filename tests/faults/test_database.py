"""The database is locked for ten seconds, or its server is restarted."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from django.db import connection, transaction

from jobs.models import Failure, Job, Status, WorkerNode
from piherder import env
from tests.faults.conftest import visit
from tests.faults.herd import Herd
from tests.faults.matter import COPY, SLEEP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.plugin import DjangoDbBlocker

    from piherder.house.postgres import PrivatePostgres

pytestmark = pytest.mark.fault
ON_POSTGRESQL = pytest.mark.skipif(
    not env.text("DATABASE_URL").startswith("postgres"), reason="SQLite has no server that could restart"
)


@contextmanager
def held_by_a_writer(seconds: float) -> Iterator[None]:
    """Nobody else writes jobs until the block has lasted so long (SQLite: nobody writes anything)."""
    began = time.monotonic()
    with transaction.atomic():
        if connection.vendor == "postgresql":
            connection.cursor().execute("LOCK TABLE jobs_job IN EXCLUSIVE MODE")
        yield
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))


def test_a_writer_that_holds_the_lock_for_ten_seconds_fails_no_job(herd: Herd) -> None:  # case H27
    worker = herd.worker("gamma", PIHERDER_SILENCE_SEC="20")
    herd.only(worker)
    jobs = [COPY.working(herd, seconds=3), SLEEP.working(herd, seconds=14)]
    with held_by_a_writer(10):
        assert worker.running
    assert [herd.ended(job).status for job in jobs] == [Status.SUCCEEDED] * 2
    assert [len(herd.attempts(job)) for job in jobs] == [1, 1]


@pytest.fixture(scope="module")
def own_herd_of_module(own_server: PrivatePostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Herd]:
    """A herd on that server."""
    herd = Herd(tmp_path_factory.mktemp("own"), own_server.url)
    try:
        yield herd
    finally:
        herd.close()


@pytest.fixture
def own_herd(own_herd_of_module: Herd, django_db_blocker: DjangoDbBlocker) -> Iterator[Herd]:
    """The herd, entered by this process; its worker is started again when it gives up."""
    for herd in visit(own_herd_of_module, django_db_blocker):
        herd.worker().kept = True
        yield herd


def assert_ran_once(herd: Herd, *jobs: Job) -> None:
    """All succeeded, each in one attempt, and no worker was taken for dead."""
    assert [herd.ended(job).status for job in jobs] == [Status.SUCCEEDED] * len(jobs), herd.report()
    assert [len(herd.attempts(job)) for job in jobs] == [1] * len(jobs)
    running = [process.pid for process in herd.processes.values() if process.running]
    assert not WorkerNode.objects.filter(dead_why__startswith="silent", pid__in=running).exists()


@ON_POSTGRESQL
@pytest.mark.parametrize("point", ["finish:begin", "finish:inside", "claim", "lock"])
def test_restarted_at_the_moment(own_herd: Herd, own_server: PrivatePostgres, point: str) -> None:
    own_herd.order(point, "halt")
    job = COPY.ask(own_herd)
    own_herd.until(lambda: own_herd.struck(point), point)
    own_server.restart()
    own_herd.go_on(point)
    assert_ran_once(own_herd, job)


@ON_POSTGRESQL
def test_restarted_in_mid_job(own_herd: Herd, own_server: PrivatePostgres) -> None:
    job = COPY.working(own_herd, seconds=4)
    own_server.restart()
    assert_ran_once(own_herd, job)


@ON_POSTGRESQL
def test_away_for_longer_than_a_worker_may_be_silent(own_herd: Herd, own_server: PrivatePostgres) -> None:
    other = own_herd.worker("beta")
    job = COPY.working(own_herd, seconds=3)
    own_server.kill()
    time.sleep(6)
    own_server.start()
    assert_ran_once(own_herd, job)
    assert other.running


@ON_POSTGRESQL
def test_a_worker_stopped_while_the_server_is_away_still_tells_its_jobs(
    own_herd: Herd, own_server: PrivatePostgres
) -> None:
    worker = own_herd.worker()
    worker.kept = False
    own_herd.only(worker)
    job = COPY.working(own_herd, seconds=60)
    own_server.kill()
    worker.send(signal.SIGTERM)
    own_herd.until(lambda: "drain: the database is away" in worker.output, "the stop could not be written")
    own_server.start()
    assert own_herd.ended(job).failure == Failure.WORKER_STOPPED
    assert worker.wait() == 0
