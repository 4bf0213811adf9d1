"""A job's log: all of it in a file, its ends as rows, and nothing in it that breaks a database or a page."""

from __future__ import annotations

import gzip
import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import logs
from jobs.logs import CUT, HEAD, LONGEST, TAIL, JobLog
from jobs.models import Job, JobLine, Status
from jobs.words import one_line, storable
from tests.factories import change, make_job, make_node, running_on, store

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import Settings


@pytest.fixture
def job(db: None) -> Job:
    return running_on(make_node(), make_job("loose"))


def written(job: Job, *lines: str) -> list[str]:
    """What the file holds after these lines, without the times."""
    log = JobLog(job.pk)
    for line in lines:
        log.write(line)
    store(job, log.take())
    log.close()
    return [line.split(" ", 1)[1].rstrip("\n") for line in logs.read(job.pk)]


def numbers(job: Job) -> list[int]:
    return list(job.lines.values_list("number", flat=True))


def test_lines_reach_the_file_and_the_rows(job: Job) -> None:
    assert written(job, "one", "two") == ["one", "two"]
    assert [line.text for line in job.lines.all()] == ["one", "two"]
    job.refresh_from_db()
    assert job.log_lines == 2


def test_a_line_of_a_megabyte_is_cut(job: Job) -> None:
    (line,) = written(job, "x" * 1_000_000)
    assert line == "x" * LONGEST + CUT
    assert JobLine.objects.get().text == line


def test_many_lines_leave_a_bounded_number_of_rows(job: Job) -> None:
    log = JobLog(job.pk)
    for number in range(200_000):
        log.write(f"line {number}")
        if number % 20_000 == 0:
            store(job, log.take())
    store(job, log.take())
    log.close()
    assert numbers(job) == [*range(1, HEAD + 1), *range(200_000 - TAIL + 1, 200_001)]
    assert sum(1 for _ in logs.read(job.pk)) == 200_000


def test_what_was_stored_once_is_not_stored_twice(job: Job) -> None:
    log = JobLog(job.pk)
    log.write("a")
    rows = log.take()
    store(job, rows)
    store(job, [JobLine(job_id=job.pk, number=row.number, text=row.text) for row in rows])
    assert (numbers(job), log.take()) == ([1], [])
    log.close()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("Gr\udcfc\udcdfe", "Gr\\udcfc\\udcdfe"),  # case G08
        ("a\x00b", "a\\0b"),  # case G08
        ("one\ntwo\r", "one\\ntwo\\r"),
        ("kühl ☃", "kühl ☃"),
    ],
)
def test_odd_text_is_escaped(job: Job, raw: str, shown: str) -> None:
    assert written(job, raw) == [shown]


def test_text_of_several_lines_keeps_them_where_it_may() -> None:
    assert (storable("a\nb\x00"), one_line("a\nb\x00")) == ("a\nb\\0", "a\\nb\\0")


def test_a_secret_reaches_neither_file_nor_rows(job: Job) -> None:
    # case G16
    log = JobLog(job.pk, mask=lambda line: line.replace("S3cr3t$x", "***"))
    log.write("login with S3cr3t$x")
    store(job, log.take())
    log.close()
    assert "S3cr3t" not in JobLine.objects.get().text + "".join(logs.read(job.pk))


def test_an_ended_log_is_packed_and_reads_the_same(job: Job) -> None:
    before = written(job, "one", "two")
    logs.compress(job.pk)
    assert not logs.path_of(job.pk).exists()
    assert [line.split(" ", 1)[1].rstrip("\n") for line in logs.read(job.pk)] == before
    with gzip.open(logs.path_of(job.pk).with_suffix(".log.gz")) as handle:
        assert handle.read().count(b"\n") == 2


def test_packing_nothing_makes_nothing(job: Job) -> None:
    logs.compress(job.pk)
    assert list(logs.read(job.pk)) == []


@pytest.mark.parametrize("packed", [True, False])
def test_a_discarded_log_is_gone(job: Job, packed: bool) -> None:
    written(job, "one")
    if packed:
        logs.compress(job.pk)
    logs.discard(job.pk)
    assert (list(logs.read(job.pk)), numbers(job)) == ([], [])


def test_a_log_goes_on_where_it_stopped(job: Job) -> None:
    written(job, "one")
    log = JobLog(job.pk, first=1)
    log.write("two")
    store(job, log.take())
    log.close()
    assert numbers(job) == [1, 2]


def test_a_folder_that_cannot_be_made_costs_the_file_only(job: Job, settings: Settings, tmp_path: Path) -> None:
    settings.PIHERDER_LOGS = tmp_path / "file" / "below"
    (tmp_path / "file").write_text("in the way")
    assert written(job, "one") == []
    assert numbers(job) == [1]


def test_a_full_disk_costs_lines_not_the_job(job: Job) -> None:
    log = JobLog(job.pk)
    log.write("zero")
    log.take()
    assert log._file
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._file.fileno())
    os.close(full)
    log.write("one")
    assert [row.text for row in log.take()] == ["one"]
    log.close()
    assert log.broken


@pytest.mark.parametrize(
    "moved",
    [{"attempt": uuid.uuid4()}, {"status": Status.FAILED, "finished_at": timezone.now()}],
    ids=["taken", "over"],
)
def test_lines_of_an_attempt_that_lost_the_row_are_not_stored(job: Job, moved: dict[str, Any]) -> None:
    attempt = job.attempt or uuid.uuid4()
    change(job, **moved)
    logs.store(job.pk, attempt, [JobLine(job_id=job.pk, number=7, text="from the past")])
    job.refresh_from_db()
    assert (numbers(job), job.log_lines) == ([], 0)


def test_lines_of_a_job_that_was_deleted_are_dropped(job: Job) -> None:
    rows = [JobLine(job_id=job.pk, number=1, text="late")]
    attempt = job.attempt or uuid.uuid4()
    Job.objects.all().delete()
    logs.store(rows[0].job_id, attempt, rows)
    assert not JobLine.objects.exists()
