"""The log as the page shows it."""

from __future__ import annotations

import pytest

from jobs.log_view import CHUNK, LONGEST, look, plain, steps
from jobs.logs import HEAD, TAIL
from jobs.models import Job, JobLine
from tests.factories import change, make_job

pytestmark = pytest.mark.django_db


def logged(*numbers: int) -> Job:
    """A job whose rows have these numbers."""
    job = make_job("chore")
    return add(job, *numbers)


def add(job: Job, *numbers: int) -> Job:
    JobLine.objects.bulk_create([JobLine(job=job, number=number, text=f"line {number}") for number in numbers])
    return change(job, log_lines=numbers[-1])


# case G14
@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;32mgreen\x1b[0m", "green"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bplain", "plain"),
        ("cut off \x1b[", "cut off "),
        ("bell\x07", "bell\N{REPLACEMENT CHARACTER}"),
        ("evil \u202etxt.exe", "evil \N{REPLACEMENT CHARACTER}txt.exe"),
        ("tab\tand <b>", "tab\tand <b>"),
    ],
)
def test_terminal_codes_are_taken_out(raw: str, shown: str) -> None:
    assert plain(raw) == shown


def test_a_line_without_end_is_cut() -> None:
    assert plain("x" * 60_000).startswith("x" * LONGEST + " …")
    assert len(plain("x" * 60_000)) < LONGEST + 100


def test_everything_is_shown_at_first() -> None:
    view = look(logged(1, 2, 3))
    assert [line.text for line in view.lines] == ["line 1", "line 2", "line 3"]
    assert (view.last, view.fresh) == (3, False)


def test_the_gap_between_head_and_tail_is_counted() -> None:
    view = look(logged(1, 2, 1500))
    assert [line.missing for line in view.lines] == [0, 0, 1497]


def test_a_follower_gets_only_what_is_new() -> None:
    job = add(logged(1, 2), 3, 4)
    view = look(job, after=2)
    assert [line.number for line in view.lines] == [3, 4]
    assert view.fresh


def test_nothing_new_keeps_the_place() -> None:
    view = look(logged(1, 2), after=2)
    assert (view.lines, view.last, view.fresh) == ((), 2, True)


@pytest.mark.parametrize("last", [HEAD + TAIL + 50, CHUNK + 1])
def test_a_follower_that_fell_behind_or_grew_long_starts_over(last: int) -> None:
    job = add(logged(1, 2), last)
    after = 2 if last < CHUNK else last - 3
    view = look(job, after=after)
    assert not view.fresh
    assert view.lines[0].number == 1


def test_a_log_that_was_thrown_away_starts_over() -> None:
    job = change(logged(1, 2, 3), log_lines=0)
    assert not look(job, after=3).fresh


def test_steps_are_read_from_the_log() -> None:
    job = logged(1)
    JobLine.objects.create(job=job, number=2, text="== copy \x1b[1m/srv\x1b[0m")
    assert [step.text for step in steps(job)] == ["copy /srv"]
