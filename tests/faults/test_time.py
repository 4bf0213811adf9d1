"""The promised times, in production's pace: a killed worker's job fails within 30 s, a killed child's within 5 s."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure
from piherder import env
from tests.faults.conftest import visit
from tests.faults.database import fresh_database
from tests.faults.herd import Herd
from tests.faults.matter import SLEEP
from tests.faults.test_kill import carrier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django.plugin import DjangoDbBlocker

    from jobs.models import Job

pytestmark = pytest.mark.fault
NODE_SEC, CHILD_SEC = 30.0, 5.0


@pytest.fixture
def real_herd(tmp_path_factory: pytest.TempPathFactory, worker_name: str,
              django_db_blocker: DjangoDbBlocker) -> Iterator[Herd]:  # fmt: skip
    """A herd with the times of production."""
    folder = tmp_path_factory.mktemp("real")
    with fresh_database(env.text("DATABASE_URL"), f"real_{worker_name}", folder) as url:
        herd = Herd(folder, url, pace="real")
        try:
            yield from visit(herd, django_db_blocker)
        finally:
            herd.close()


def lost_after(herd: Herd, job: Job, fault: Callable[[], None]) -> float:
    """Seconds from the fault to the failed row."""
    began = time.monotonic()
    fault()
    assert herd.ended(job).failure == Failure.WORKER_LOST
    return time.monotonic() - began


def test_the_promised_times(real_herd: Herd) -> None:
    worker = real_herd.worker()
    in_child, in_node = SLEEP.working(real_herd), SLEEP.working(real_herd)
    pid = carrier(real_herd, in_child)
    real_herd.worker("beta")
    child = lost_after(real_herd, in_child, lambda: os.kill(pid, signal.SIGKILL))
    node = lost_after(real_herd, in_node, worker.kill)
    print(f"seconds until the row failed: killed child {child:.1f}, killed node {node:.1f}")
    assert child <= CHILD_SEC
    assert node <= NODE_SEC
