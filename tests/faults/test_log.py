"""Unreasonable logs: rows stay bounded, the file keeps everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs import logs
from jobs.models import JobLine, Status
from tests.faults.matter import SHOUT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.herd import Herd

pytestmark = pytest.mark.fault
MANY = 200_000


@pytest.fixture
def log_folder(herd: Herd, settings: object) -> Path:
    """Where the herd's workers write; this process reads there."""
    folder = herd.folder / "job-logs"
    settings.PIHERDER_LOGS = folder  # type: ignore[attr-defined]  # pytest-django's wrapper takes any name
    return folder


def test_a_line_of_a_megabyte_is_cut(herd: Herd, log_folder: Path) -> None:
    herd.worker()
    job = herd.ended(SHOUT.ask(herd, **SHOUT.long))
    assert job.status == Status.SUCCEEDED
    line = JobLine.objects.filter(job=job).get()
    assert line.text == "x" * logs.LONGEST + logs.CUT
    assert [len(text) for text in logs.read(job.pk)] == [len("2026-01-01T00:00:00Z ") + len(line.text) + 1]


def test_200_000_lines_are_few_rows_and_a_whole_file(herd: Herd, log_folder: Path) -> None:
    herd.worker()
    job = herd.ended(herd.ask(lines=MANY))
    assert (job.status, job.log_lines) == (Status.SUCCEEDED, MANY)
    numbers = list(JobLine.objects.filter(job=job).values_list("number", flat=True))
    assert numbers[: logs.HEAD] == list(range(1, logs.HEAD + 1))
    assert numbers[logs.HEAD :] == list(range(MANY - logs.TAIL + 1, MANY + 1))
    assert sum(1 for _ in logs.read(job.pk)) == MANY


def test_the_log_of_a_killed_job_is_kept(herd: Herd, log_folder: Path) -> None:
    worker = herd.worker()
    job = herd.works(herd.ask(seconds=60, lines=1000))
    herd.until(lambda: sum(1 for _ in logs.read(job.pk)) == 1000, "the log is on disk")
    worker.kill()
    herd.worker()
    herd.ended(job)
    assert sum(1 for _ in logs.read(job.pk)) == 1000
