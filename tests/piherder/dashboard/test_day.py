"""The day line: bars stand where their time was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from jobs.models import Status
from piherder.dashboard import day as days
from piherder.dashboard.day import Bar, Day, day, ticks
from piherder.dashboard.recent import DAY, recent
from tests.factories import change, make_host, make_job, make_node, running_on
from tests.piherder.dashboard.rows import failed, past

HOUR = timedelta(hours=1)


def drawn() -> Day:
    return day(recent())


def only() -> Bar:
    ((bar,),) = (line.bars for line in drawn().lines)
    return bar


@pytest.mark.django_db
def test_a_bar_stands_where_its_time_was() -> None:
    past("backup", make_host(), ago=12 * HOUR, lasted=6 * HOUR)
    bar = only()
    assert (bar.left, bar.width) == pytest.approx((50, 25), abs=0.1)


@pytest.mark.django_db
def test_what_began_before_begins_at_the_edge() -> None:
    past("backup", make_host(), ago=30 * HOUR, lasted=12 * HOUR)
    bar = only()
    assert (bar.left, bar.width) == pytest.approx((0, 25), abs=0.1)


@pytest.mark.django_db
def test_what_ended_before_is_history() -> None:
    past("backup", make_host(), ago=30 * HOUR, lasted=5 * HOUR)
    assert drawn().lines == ()


@pytest.mark.django_db
def test_what_runs_reaches_until_now() -> None:
    job = running_on(make_node(), make_job("backup", make_host()))
    change(job, started_at=timezone.now() - 6 * HOUR)
    bar = only()
    assert bar.left + bar.width == pytest.approx(100, abs=0.01)
    assert bar.height == days.RUNNING[1]


@pytest.mark.django_db
def test_a_clock_that_was_set_leads_nowhere_outside() -> None:
    past("backup", make_host(), ago=-3 * HOUR, lasted=HOUR)
    bar = only()
    assert (bar.left, bar.width) == (100, 0)


@pytest.mark.django_db
def test_what_never_began_is_not_there_and_routine_only_when_it_failed() -> None:
    host = make_host()
    make_job("backup", host)
    past("host_facts", host, ago=HOUR)
    assert drawn().lines == ()
    looked = failed("host_facts", host)
    assert only().job == looked


@pytest.mark.django_db
def test_verdicts_differ_in_shape() -> None:
    host = make_host()
    for status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED):
        past("backup", host, ago=HOUR, status=status)
    (line,) = drawn().lines
    shapes = {(bar.top, bar.height) for bar in line.bars} | {days.RUNNING}
    assert len(shapes) == 4


@pytest.mark.django_db
def test_rows_are_hosts_by_name_and_last_work_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    past("retention", None, ago=HOUR)
    for name in ("pi2", "pi1"):
        past("backup", make_host(name), ago=HOUR)
    assert [line.name for line in drawn().lines] == ["pi1", "pi2", ""]
    monkeypatch.setattr(days, "MOST", 2)
    assert ([line.name for line in drawn().lines], drawn().hidden) == (["pi1", "pi2"], 1)


@pytest.mark.parametrize(
    ("zone", "end", "words"),
    [
        ("UTC", datetime(2026, 6, 1, 12, 30, tzinfo=UTC), ["18:00", "00:00", "06:00", "12:00"]),
        ("Asia/Kolkata", datetime(2026, 6, 1, 12, 0, tzinfo=UTC), ["18:00", "00:00", "06:00", "12:00"]),
        ("Europe/Berlin", datetime(2026, 10, 25, 20, 30, tzinfo=UTC), ["00:00", "06:00", "12:00", "18:00"]),
    ],
)
def test_lines_stand_at_full_hours_of_the_site(zone: str, end: datetime, words: list[str]) -> None:
    with timezone.override(zone):
        found = list(ticks(end - DAY, end))
        assert [tick.words for tick in found] == words
        for tick in found:
            moment = timezone.localtime(end - DAY + DAY * tick.left / 100 + timedelta(seconds=1))
            assert f"{moment:%H:%M}" == tick.words
