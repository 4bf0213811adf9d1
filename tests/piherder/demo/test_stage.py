"""What a person sees: plain lines without escape codes, or a picture with bars and the end of the log."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from hosts.models import Host
from jobs.models import Job, Status
from piherder.demo.stage import LiveStage, PlainStage, stage

ESCAPE = re.compile(r"\x1b")


def job(status: str = Status.RUNNING, **fields: object) -> Job:
    return Job(pk=7, kind="backup", host=Host(name="attic"), status=status, node="celery@pi", **fields)


def plain() -> tuple[PlainStage, io.StringIO]:
    out = io.StringIO()
    return PlainStage(Console(file=out, width=100, highlight=False, markup=False)), out


def live() -> tuple[LiveStage, io.StringIO]:
    out = io.StringIO()
    return LiveStage(Console(file=out, width=100, force_terminal=True, highlight=False, markup=False)), out


def test_plain_lines_hold_no_escape_codes() -> None:
    shown, out = plain()
    shown.begin("1 of 2", "First backup")
    shown.state(job())
    shown.done("First backup", "6 files [compared]", 1.25)
    shown.table([("First backup", "6 files [compared]", 1.25)])
    assert not ESCAPE.search(out.getvalue())
    assert "[1 of 2] First backup\n" in out.getvalue()
    assert "ok, 1.2 s: 6 files [compared]" in out.getvalue()


def test_plain_lines_tell_each_state_once() -> None:
    shown, out = plain()
    for status in (Status.PENDING, Status.RUNNING, Status.RUNNING, Status.SUCCEEDED):
        shown.state(job(status))
    assert [line.strip() for line in out.getvalue().splitlines()] == [
        "job 7 (backup on attic): queued",
        "job 7 (backup on attic): running on celery@pi",
    ]


def test_the_log_is_told_when_a_step_fails_and_not_before() -> None:
    shown, out = plain()
    shown.begin("1 of 1", "Backup")
    shown.line(job(), "disk full")
    assert "disk full" not in out.getvalue()
    shown.failed()
    assert "attic | disk full" in out.getvalue()


def test_a_terminal_shows_bars_and_the_end_of_the_log() -> None:
    shown, _ = live()
    shown.begin("1 of 1", "First backup")
    shown.state(job(progress_done=5, progress_total=10, progress_label="/srv: 4.0 MB/s, 0:02 left"))
    for number in range(20):
        shown.line(job(), f"line {number}")
    with shown.console.capture() as captured:
        shown.console.print(shown._picture())
    shown.close()
    picture = captured.get()
    assert all(word in picture for word in ("First backup", "attic", "50 %", "4.0 MB/s, 0:02 left", "line 19"))
    assert "line 10" not in picture


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"status": Status.PENDING}, "queued"),
        ({"status": Status.FAILED}, "failed"),
        ({"step": "copy /srv"}, "copy"),
    ],
)
def test_a_bar_says_what_its_job_does(fields: dict[str, str], label: str) -> None:
    shown, _ = live()
    shown.begin("1 of 1", "Backup")
    shown.state(job(**fields))
    assert [task.fields["label"] for task in shown.progress.tasks] == [label]
    shown.close()


def test_a_finished_step_stays_with_its_proof() -> None:
    shown, out = live()
    shown.begin("1 of 1", "Backup")
    shown.done("Backup", "proven " * 40, 3.0)
    assert "✓" in out.getvalue()
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in out.getvalue().splitlines() if "proven" in line]
    assert len(lines) > 1
    assert all(line.startswith("   proven") for line in lines)


def test_a_failed_step_stays_with_its_cross() -> None:
    shown, out = live()
    shown.begin("1 of 1", "Backup")
    shown.line(job(), "disk full")
    shown.failed()
    shown.close()
    assert "✗" in out.getvalue()
    assert "disk full" in out.getvalue()


def test_output_that_is_no_terminal_is_plain() -> None:
    assert type(stage()) is PlainStage


class Closed(io.StringIO):
    """A terminal whose window was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_closed_terminal_does_not_stop_the_clean_up() -> None:
    shown, _ = live()
    shown.begin("1 of 1", "Backup")
    shown.console.file = Closed()
    shown.close()
    shown.say("Stopping …")
