"""Redis forgets everything, or PostgreSQL restarts, in mid rsync: the copy goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.models import JobEvent, Status
from piherder import env
from tests.faults.hosts.conftest import NUMBERS, visit
from tests.faults.hosts.machine import HostHerd, Machine, new_machine, new_root
from tests.faults.test_redis import flush, restart_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_django.plugin import DjangoDbBlocker

    from jobs.models import Job
    from piherder.house.postgres import PrivatePostgres
    from tests.faults.herd import Herd

pytestmark = pytest.mark.fault
FORGET = pytest.mark.parametrize("fault", [restart_empty, flush], ids=lambda f: f.__name__)
ON_POSTGRESQL = pytest.mark.skipif(
    not env.text("DATABASE_URL").startswith("postgres"), reason="SQLite has no server that could restart"
)


def assert_good(pi: Machine, job: Job) -> None:
    """It succeeded in one attempt and holds what the host has."""
    assert pi.herd.ended(job, 60).status == Status.SUCCEEDED, pi.herd.report()
    assert JobEvent.objects.filter(job=job, name="running").count() == 1
    assert pi.same()


@FORGET
def test_redis(pi: Machine, fault: Callable[[Herd], None]) -> None:
    pi.herd.worker().kept = True
    job = pi.copying(kib=500, megabytes=4)
    token = pi.holder()
    assert token == f"{job.pk}:{job.attempt}"
    pi.sshd.freeze()  # so that the copy is still under way then, however long the fault takes
    fault(pi.herd)
    pi.herd.until(lambda: pi.holder() == token, "the key is set again")
    assert len(pi.servers()) > 0
    pi.sshd.thaw()
    assert_good(pi, job)


@FORGET
def test_redis_under_two_copies_of_different_length(
    make_machine: Callable[..., Machine], fault: Callable[[Herd], None]
) -> None:
    long, short = make_machine(), make_machine()
    long.herd.worker().kept = True
    jobs = [long.copying(kib=500, megabytes=5), short.copying(kib=500, megabytes=2)]
    fault(long.herd)
    assert_good(short, jobs[1])
    assert_good(long, jobs[0])


@pytest.fixture(scope="module")
def own_herd_of_module(own_server: PrivatePostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostHerd]:
    """A herd on that server."""
    herd = HostHerd(tmp_path_factory.mktemp("oh"), own_server.url)
    try:
        yield herd
    finally:
        herd.close()


@pytest.fixture
def own_herd(own_herd_of_module: HostHerd, django_db_blocker: DjangoDbBlocker) -> Iterator[HostHerd]:
    """The same, entered and checked."""
    yield from visit(own_herd_of_module, django_db_blocker)


@pytest.fixture
def own_pi(own_herd: HostHerd, tmp_path: Path, login_key: tuple[str, str]) -> Machine:
    """A host of that herd."""
    return new_machine(own_herd, f"own{next(NUMBERS)}", tmp_path, new_root(tmp_path / "root"), login_key)


@ON_POSTGRESQL
def test_postgresql(own_pi: Machine, own_server: PrivatePostgres) -> None:
    own_pi.herd.worker().kept = True
    job = own_pi.copying(kib=500, megabytes=4)
    own_server.restart()
    assert_good(own_pi, job)


@ON_POSTGRESQL
def test_postgresql_that_is_away_when_the_copy_ends(own_pi: Machine, own_server: PrivatePostgres) -> None:
    herd = own_pi.herd
    herd.worker().kept = True
    job = own_pi.copying(kib=800, megabytes=3)
    own_server.stop()
    herd.until(lambda: not own_pi.servers(), "rsync has ended")
    own_server.start()
    assert_good(own_pi, job)
