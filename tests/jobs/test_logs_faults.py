"""A log that is read while it grows, interrupted while it is packed, or cannot be written; nothing of it is lost."""

from __future__ import annotations

import gzip
import os
import threading
from typing import TYPE_CHECKING

import pytest

from jobs import logs
from jobs.logs import HEAD, LONGEST, TAIL, JobLog
from tests.factories import make_job, make_node, running_on, store

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import Settings

    from jobs.models import Job

CONTROL = [*range(0, 32), 127, *range(128, 160)]


@pytest.fixture
def job(db: None) -> Job:
    return running_on(make_node(), make_job("loose"))


def packed(job: Job) -> Path:
    return logs.path_of(job.pk).with_suffix(".log.gz")


def written(job: Job, *lines: str) -> None:
    log = JobLog(job.pk)
    for line in lines:
        log.write(line)
    store(job, log.take())
    log.close()


def texts(job: Job) -> list[str]:
    return [line.split(" ", 1)[1].rstrip("\n") for line in logs.read(job.pk)]


# --- what a line may hold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CONTROL)
def test_no_control_character_breaks_a_line_or_a_database(job: Job, code: int) -> None:  # case G08
    written(job, f"before{chr(code)}after", "next")
    first, second = texts(job)
    assert (first[:6], first[-5:], second) == ("before", "after", "next")
    assert job.lines.get(number=1).text == first


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_no_line_separator_of_unicode_makes_two_lines(job: Job, mark: str) -> None:
    written(job, f"a{mark}b")
    assert len("".join(logs.read(job.pk)).splitlines()) == 1


@pytest.mark.parametrize("code", ["\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\x08\x08", "\x1b[?1049h"])
def test_no_host_can_steer_the_terminal_of_whoever_reads(job: Job, code: str) -> None:  # case G14
    written(job, f"a{code}b")
    (line,) = texts(job)
    assert line.isprintable()
    assert line.startswith("a\\x")


@pytest.mark.parametrize("text", ["", " ", "<b>&amp;</b>", "{{ x }}", "%s %d", "\u202eevil", "👩‍👩‍👧", "é" * LONGEST])
def test_odd_but_harmless_text_stays_as_it_is(job: Job, text: str) -> None:
    written(job, text)
    assert job.lines.get().text == text


def test_a_line_is_masked_before_it_is_cut(job: Job) -> None:  # case G16
    log = JobLog(job.pk, mask=lambda line: line.replace("S3cr3t", "***"))
    log.write("x" * (LONGEST - 3) + "S3cr3t")
    (row,) = log.take()
    log.close()
    assert "S3c" not in row.text + "".join(logs.read(job.pk))


# --- head and tail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, HEAD, HEAD + 1, HEAD + TAIL, HEAD + TAIL + 1, 2 * TAIL])
def test_the_ends_stay_as_rows_and_the_middle_only_in_the_file(job: Job, count: int) -> None:
    written(job, *(f"line {n}" for n in range(1, count + 1)))
    kept = list(job.lines.values_list("number", flat=True))
    wanted = sorted({*range(1, min(count, HEAD) + 1), *range(max(1, count - TAIL + 1), count + 1)})
    assert kept == wanted
    assert len(texts(job)) == count


def test_a_second_attempt_goes_on_where_the_first_ended(job: Job) -> None:
    written(job, "one", "two")
    log = JobLog(job.pk, first=2)
    log.write("three")
    store(job, log.take())
    log.close()
    assert (texts(job), list(job.lines.values_list("number", flat=True))) == (["one", "two", "three"], [1, 2, 3])


def test_lines_from_many_threads_are_all_there(job: Job) -> None:
    log = JobLog(job.pk)

    def write(name: int) -> None:
        for number in range(200):
            log.write(f"{name} {number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [row.number for row in log.take()]
    log.close()
    assert log.count == 800
    assert len(set(numbers)) == len(numbers)
    assert sorted(texts(job)) == sorted(f"{name} {number}" for name in range(4) for number in range(200))


# --- reading while it is written ---------------------------------------------------------------------------------


def test_a_log_can_be_read_while_it_grows(job: Job) -> None:
    log = JobLog(job.pk)
    log.write("one")
    log.take()
    assert texts(job) == ["one"]
    log.write("two")
    log.take()
    assert texts(job) == ["one", "two"]
    log.close()


def test_a_reader_that_began_before_the_packing_reads_to_the_end(job: Job) -> None:
    written(job, *(f"line {n}" for n in range(5000)))
    reader = logs.read(job.pk)
    next(reader)
    logs.compress(job.pk)
    assert sum(1 for _ in reader) == 4999


def test_a_job_that_logged_nothing_reads_as_nothing(job: Job) -> None:
    assert list(logs.read(job.pk)) == []
    logs.compress(job.pk)
    assert not packed(job).exists()


def test_bytes_that_a_crash_left_are_read_all_the_same(job: Job) -> None:
    written(job, "one")
    with logs.path_of(job.pk).open("ab") as file:
        file.write(b"2026-01-01T00:00:00Z caf\xe9 \x00")
    assert len(list(logs.read(job.pk))) == 2


# --- packing -----------------------------------------------------------------------------------------------------


def test_packing_that_was_interrupted_is_done_again(job: Job) -> None:
    written(job, "one", "two")
    logs.path_of(job.pk).with_suffix(".gz.part").write_bytes(b"half")
    assert texts(job) == ["one", "two"]
    logs.compress(job.pk)
    assert texts(job) == ["one", "two"]
    assert [path.name for path in packed(job).parent.iterdir()] == [packed(job).name]


def test_packing_twice_changes_nothing(job: Job) -> None:
    written(job, "one")
    logs.compress(job.pk)
    before = packed(job).read_bytes()
    logs.compress(job.pk)
    assert packed(job).read_bytes() == before


def test_a_packed_log_is_one_that_anyone_can_open(job: Job) -> None:
    written(job, "kühl")
    logs.compress(job.pk)
    assert gzip.decompress(packed(job).read_bytes()).decode("utf-8").endswith(" kühl\n")


def test_discarding_removes_file_rows_and_half_packed_rest(job: Job) -> None:  # case H29
    written(job, "one")
    logs.compress(job.pk)
    logs.path_of(job.pk).with_suffix(".gz.part").write_bytes(b"half")
    logs.discard(job.pk)
    assert (job.lines.count(), list(packed(job).parent.iterdir())) == (0, [])


def test_discarding_what_is_not_there_is_nothing(job: Job) -> None:
    logs.discard(job.pk)
    logs.discard(987_654_321)


def test_logs_lie_a_thousand_to_a_folder(settings: Settings) -> None:
    for job_id, folder in ((1, "000000"), (999, "000000"), (1000, "000001"), (1_234_567, "001234")):
        assert logs.path_of(job_id).parent.name == folder


# --- a disk that fails -------------------------------------------------------------------------------------------


def test_a_log_folder_that_cannot_be_made_costs_the_file_and_not_the_rows(
    job: Job, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "in-the-way").write_text("")
    settings.PIHERDER_LOGS = tmp_path / "in-the-way"
    log = JobLog(job.pk)
    log.write("one")
    store(job, log.take())
    log.close()
    assert log.broken
    assert job.lines.get().text == "one"


def test_a_disk_that_fills_is_said_once(job: Job, caplog: pytest.LogCaptureFixture) -> None:  # case C09
    log = JobLog(job.pk)
    log.write("first")
    log.take()
    assert log._file
    os.dup2(os.open("/dev/full", os.O_WRONLY), log._file.fileno())
    for number in range(3):
        log.write(f"line {number}")
        log.take()
    log.close()
    assert log.broken
    assert caplog.text.count("its log file cannot be written") == 1
