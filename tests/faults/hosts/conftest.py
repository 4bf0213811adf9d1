"""A herd with real hosts; after every test both sides are clean, the last good generation is whole, the next works."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from hosts.host_keys import generate_key
from jobs.models import EngineSettings, Job, Status
from piherder import env
from tests.faults.database import fresh_database
from tests.faults.hosts.machine import HostHerd, Machine, new_machine, new_root, until_gone
from tests.faults.leftovers import leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_django.plugin import DjangoDbBlocker

    from hosts.models import BackupRoot

SETTLE = 30.0
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def login_key() -> tuple[str, str]:
    """Private and public half of the key that opens every host here."""
    return generate_key("faults")


@pytest.fixture(scope="session")
def shared_host_herd(
    tmp_path_factory: pytest.TempPathFactory, worker_name: str, django_db_blocker: DjangoDbBlocker
) -> Iterator[HostHerd]:
    """The herd that most of these faults meet."""
    folder = tmp_path_factory.mktemp("hh")
    with fresh_database(env.text("DATABASE_URL"), f"hostfaults_{worker_name}", folder) as url:
        herd = HostHerd(folder, url)
        try:
            yield herd
        finally:
            herd.close()


@pytest.fixture
def herd(shared_host_herd: HostHerd, django_db_blocker: DjangoDbBlocker) -> Iterator[HostHerd]:
    """The herd, entered by this process."""
    yield from visit(shared_host_herd, django_db_blocker)


def visit(herd: HostHerd, blocker: DjangoDbBlocker) -> Iterator[HostHerd]:
    """One test's time with a herd: clean before, checked after."""
    with herd.entered(blocker):
        start_afresh(herd)
        try:
            yield herd
            check(herd)
            herd.only(herd.worker())
        finally:
            for machine in herd.machines:
                machine.sshd.stop()
            for folder in herd.litter:
                shutil.rmtree(folder)
            herd.litter.clear()


def start_afresh(herd: HostHerd) -> None:
    """What a failed test left is none of the next one's business."""
    herd.calm()
    herd.asked.clear()
    herd.machines.clear()
    EngineSettings.objects.all().delete()
    if not herd.redis.answers() or leftovers(herd) or herd.programs():
        herd.only()
        herd.redis.kill()
        herd.redis.wipe()
        herd.redis.start()
        Job.objects.all().delete()


def check(herd: HostHerd) -> None:
    """What holds after every fault."""
    for machine in herd.machines:
        machine.sshd.thaw()
    nothing_is_left(herd)
    assert [path for machine in herd.machines for path in machine.touched()] == []
    herd.worker()
    for machine in herd.machines:
        machine.mend()
    again = [machine.ask() for machine in herd.machines]
    assert [herd.ended(job).status for job in again] == [Status.SUCCEEDED] * len(again), herd.report()
    assert all(machine.same() for machine in herd.machines)
    assert [path for machine in herd.machines for path in machine.touched()] == []
    nothing_is_left(herd)


def nothing_is_left(herd: HostHerd) -> None:
    """No active row, no right, no process of a job here or on a host."""

    def found() -> list[str]:
        return leftovers(herd) + [line for machine in herd.machines for line in machine.leftovers()]

    until_gone(herd, found, SETTLE)


@pytest.fixture
def root(herd: HostHerd, tmp_path: Path) -> BackupRoot:
    """A backup root of this test's own."""
    return new_root(tmp_path / "root")


@pytest.fixture
def make_machine(
    herd: HostHerd, root: BackupRoot, login_key: tuple[str, str], tmp_path: Path
) -> Callable[..., Machine]:
    """`make_machine(**options of the sshd)`: a host that is up and was backed up before."""

    def make(folder: Path | None = None, **options: Any) -> Machine:
        return new_machine(herd, f"pi{next(NUMBERS)}", folder or tmp_path, root, login_key, **options)

    return make


@pytest.fixture
def pi(make_machine: Callable[..., Machine]) -> Machine:
    """One host."""
    return make_machine()
