"""A herd per test process; after every test nothing is left of its fault, and the same request works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.models import Job, Status
from piherder import env
from piherder.house.postgres import PrivatePostgres
from tests.faults import matter
from tests.faults.database import fresh_database
from tests.faults.herd import Herd
from tests.faults.leftovers import leftovers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.plugin import DjangoDbBlocker

    from tests.faults.matter import Matter

SETTLE = 20.0


@pytest.fixture(params=matter.MATRIX, ids=lambda m: m.kind)
def work(request: pytest.FixtureRequest) -> Matter:
    """Each kind of the matrix."""
    found: Matter = request.param
    return found


@pytest.fixture(scope="session")
def worker_name(request: pytest.FixtureRequest) -> str:
    """This test process's own word for names that its neighbour must not use."""
    return str(getattr(request.config, "workerinput", {}).get("workerid", "main"))


@pytest.fixture(scope="session")
def shared_herd(
    tmp_path_factory: pytest.TempPathFactory, worker_name: str, django_db_blocker: DjangoDbBlocker
) -> Iterator[Herd]:
    """The herd that most faults meet; its processes are started when a test needs them."""
    folder = tmp_path_factory.mktemp("herd")
    with fresh_database(env.text("DATABASE_URL"), f"faults_{worker_name}", folder) as url:
        herd = Herd(folder, url)
        try:
            yield herd
        finally:
            herd.close()


@pytest.fixture
def herd(shared_herd: Herd, django_db_blocker: DjangoDbBlocker) -> Iterator[Herd]:
    """The herd, entered by this process."""
    yield from visit(shared_herd, django_db_blocker)


def visit(herd: Herd, blocker: DjangoDbBlocker) -> Iterator[Herd]:
    """One test's time with a herd: clean before, checked after."""
    with herd.entered(blocker):
        start_afresh(herd)
        yield herd
        herd.calm()
        nothing_is_left(herd)
        the_second_attempt_works(herd)
        nothing_is_left(herd)
        herd.only(herd.worker())


def start_afresh(herd: Herd) -> None:
    """What a failed test left is none of the next one's business."""
    herd.calm()
    herd.asked.clear()
    if not herd.redis.answers() or leftovers(herd):
        herd.only()
        herd.redis.kill()
        herd.redis.wipe()
        herd.redis.start()
        Job.objects.all().delete()


def nothing_is_left(herd: Herd) -> None:
    """No active row, no lane, fence or mutex, no process that is not the herd's."""
    left: list[str] = []

    def clean() -> bool:
        left[:] = leftovers(herd)
        return not left

    herd.until(clean, f"nothing is left: {left}", SETTLE)


def the_second_attempt_works(herd: Herd) -> None:
    """The request that met the fault, once more and brief: it succeeds."""
    if not herd.asked:
        return
    first = herd.asked[-1]
    herd.worker()
    tag = {"tag": first.params["tag"]} if "tag" in first.params else {}
    again = matter.ALL[first.kind].ask(herd, **tag)
    assert herd.ended(again).status == Status.SUCCEEDED, herd.report()


@pytest.fixture(scope="module")
def own_server() -> Iterator[PrivatePostgres]:
    """A PostgreSQL server that only these tests know."""
    server = PrivatePostgres()
    try:
        server.start()
        yield server
    finally:
        server.close()
