"""Schedules that a person wrote by hand in the administration: odd rhythms, odd wishes, and their next run."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, IntervalSchedule, PeriodicTask, SolarSchedule

from jobs.models import ScheduleFire
from jobs.schedules import SCHEDULE, Wish, crontab_row, offset
from jobs.timetable import Entry, rhythm_words, timetable
from tests.commands import herder
from tests.factories import make_host
from tests.jobs.schedule_rows import make_fire, make_schedule

if TYPE_CHECKING:
    from hosts.models import Host

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def entry(row: PeriodicTask, now: datetime = NOON) -> Entry:
    (found,) = [each for each in timetable(now) if each.name == row.name]
    return found


def written(text: str) -> PeriodicTask:
    """A schedule with these words for its arguments."""
    row = make_schedule()
    PeriodicTask.objects.filter(pk=row.pk).update(kwargs=text)
    row.refresh_from_db()
    return row


# --- wishes


@pytest.mark.parametrize(
    "text",
    [
        "{broken",
        "[]",
        "7",
        '"backup"',
        "{}",
        '{"kind": 5}',
        '{"kind": ["backup"]}',
        '{"kind": null}',
        '{"kind": "chore", "host_id": [1]}',
        '{"kind": "chore", "host_id": "7"}',
        '{"kind": "chore", "params": [1]}',
        '{"kind": "chore", "spread_min": "soon"}',
        '{"kind": "chore", "spread_min": 1e400}',
        '{"kind": "chore", "spread_min": NaN}',
        '{"kind": "chore", "spread_min": null}',
    ],
)
def test_a_wish_that_cannot_be_read_is_named_and_hides_no_other(text: str) -> None:
    row, good = written(text), make_schedule()
    found = entry(row)
    assert (found.problem, found.next_due, found.kind) == ("its arguments cannot be read", None, "?")
    assert entry(good).next_due
    assert herder("schedules").code == 0


def test_an_empty_text_is_no_wish() -> None:
    assert entry(written("")).problem


@pytest.mark.parametrize(
    ("wish", "where"),
    [
        ({"kind": "chore"}, "–"),
        ({"kind": "work", "hosts": "all"}, "all hosts"),
        ({"kind": "work", "host_id": 987654}, "host 987654 (removed)"),
        ({"kind": "work", "hosts": "some"}, "–"),
    ],
)
def test_where_a_schedule_runs(wish: dict[str, Any], where: str) -> None:
    assert entry(make_schedule(wish)).where == where


def test_a_host_is_named(host: Host) -> None:
    assert entry(make_schedule({"kind": "work", "host_id": host.pk})).where == host.name


def test_a_removed_host_is_told_as_such(host: Host) -> None:
    row = make_schedule({"kind": "work", "host_id": host.pk})
    type(host).objects.filter(pk=host.pk).update(removed_at=timezone.now())
    assert entry(row).where == f"host {host.pk} (removed)"


def test_a_chore_that_is_no_job_is_listed_by_its_task() -> None:
    row = make_schedule()
    PeriodicTask.objects.filter(pk=row.pk).update(task="tidy", kwargs="{}")
    found = entry(row)
    assert (found.kind, found.where, found.problem) == ("tidy", "–", "")


def test_celerys_own_cleaning_is_nobodys_business() -> None:
    row = make_schedule()
    PeriodicTask.objects.filter(pk=row.pk).update(task="celery.backend_cleanup")
    assert timetable(NOON) == []


def test_a_wish_is_read_with_its_parts() -> None:
    wish = Wish.of(written(json.dumps({"kind": "backup", "host_id": 7, "params": {"a": 1}, "spread_min": 30})))
    assert wish == Wish("backup", 7, False, {"a": 1}, timedelta(minutes=30))


# --- rhythms


@pytest.mark.parametrize(
    ("every", "period", "words"),
    [
        (15, "minutes", "every 15 min"),
        (2, "hours", "every 2 h"),
        (30, "seconds", "every 30 s"),
        (1, "days", "every 1 d"),
        (5, "microseconds", "every 5 microseconds"),
    ],
)
def test_an_interval_in_words(every: int, period: str, words: str) -> None:
    row = PeriodicTask(interval=IntervalSchedule(every=every, period=period))
    assert rhythm_words(row) == words


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("30 3 * * *", "every day at 03:30"),
        ("5 14 * * 0", "every Sunday at 14:05"),
        ("5 14 * * 7", "every Sunday at 14:05"),
        ("0 4 * * 1", "every Monday at 04:00"),
        ("0 4 * * sat", "every Saturday at 04:00"),
        ("0 4 * * 1,3", "0 4 * * 1,3"),
        ("0 4 1 * *", "0 4 1 * *"),
        ("0 4 * 6 *", "0 4 * 6 *"),
        ("0 */4 * * *", "0 */4 * * *"),
        ("*/5 1-3 1,15 * mon", "*/5 1-3 1,15 * mon"),
    ],
)
def test_a_cron_line_in_words_where_they_say_the_same(cron: str, words: str) -> None:
    assert rhythm_words(make_schedule(cron=cron, zone="Asia/Tokyo")) == f"{words} Asia/Tokyo"


def test_a_single_moment_is_listed_too() -> None:
    row = make_schedule()
    moment = ClockedSchedule.objects.create(clocked_time=NOON + timedelta(days=1))
    PeriodicTask.objects.filter(pk=row.pk).update(interval=None, clocked=moment, one_off=True)
    assert entry(row).next_due
    assert herder("schedules").code == 0


def test_a_rhythm_that_cannot_be_reckoned_is_named_and_hides_no_other() -> None:
    row, good = make_schedule(), make_schedule()
    sun = SolarSchedule.objects.create(event="sunset", latitude=52.5, longitude=13.4)
    PeriodicTask.objects.filter(pk=row.pk).update(interval=None, solar=sun)
    assert (entry(row).rhythm, entry(row).next_due) == ("at sunset", None)
    assert "the sun is not followed: use a cron line" in herder("schedules").out
    assert entry(good).next_due


@pytest.mark.parametrize(
    ("cron", "due"),
    [
        ("30 2 * * *", datetime(2026, 6, 2, 2, 30, tzinfo=UTC)),
        ("0 13 * * *", datetime(2026, 6, 1, 13, tzinfo=UTC)),
        ("*/15 * * * *", datetime(2026, 6, 1, 12, 15, tzinfo=UTC)),
        ("0 0 1 * *", datetime(2026, 7, 1, tzinfo=UTC)),
        ("0 4 * * sun", datetime(2026, 6, 7, 4, tzinfo=UTC)),
        ("0 4 * * 0", datetime(2026, 6, 7, 4, tzinfo=UTC)),
    ],
)
def test_the_next_run_of_a_cron_line(cron: str, due: datetime) -> None:
    row = make_schedule(cron=cron, zone="UTC", last_run_at=NOON, date_changed=NOON)
    assert entry(row).next_due == due


def test_a_night_that_is_an_hour_longer_keeps_its_local_time() -> None:
    before = datetime(2026, 10, 24, 12, tzinfo=UTC)  # the clocks go back in the following night
    row = make_schedule(cron="30 4 * * *", zone="Europe/Berlin", last_run_at=before, date_changed=before)
    assert entry(row, before).next_due == datetime(2026, 10, 25, 3, 30, tzinfo=UTC)


def test_a_clock_that_was_set_back_does_not_stop_a_schedule() -> None:
    row = make_schedule(last_run_at=NOON + timedelta(days=400))
    assert entry(row).next_due == NOON + timedelta(minutes=10)


def test_places_in_a_spread_are_always_the_same_and_inside_it() -> None:
    hour = timedelta(hours=1)
    row = make_schedule()
    assert offset(row, hour) == offset(row, hour) < hour
    assert offset(row, timedelta(0)) == timedelta(0)


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "x * * * *", "🐑 * * * *"],
)
def test_a_cron_line_that_cannot_be_is_told_in_words(cron: str) -> None:
    with pytest.raises(ValueError, match=r"A cron line has five fields|cannot be read"):
        crontab_row(cron)


@pytest.mark.parametrize("zone", ["Nowhere/Land", "Europe", "/etc/passwd", "../../etc", "UTC\x00", "🐑"])
def test_a_zone_that_is_none(zone: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        crontab_row("0 4 * * *", zone)


def test_one_rhythm_is_one_row() -> None:
    assert crontab_row("0 4 * * *", "UTC") == crontab_row("0  4 * *  *", "UTC")


# --- what became of the last run


def test_a_run_that_skipped_hosts_says_which_and_why() -> None:
    row = make_schedule({"kind": "work", "hosts": "all"})
    make_fire(row, fired_at=timezone.now(), started=1, skipped=2, text="pi1: skipped: paused\npi2: skipped: job 3")
    lines = herder("schedules").out.splitlines()
    assert [line.split(" ", 2)[-1].strip() for line in lines[-2:]] == ["pi1: skipped: paused", "pi2: skipped: job 3"]


def test_only_the_last_run_counts() -> None:
    row = make_schedule()
    make_fire(row, due_at=NOON, text="an old reason", skipped=1)
    make_fire(row, started=1)
    assert "an old reason" not in herder("schedules").out


def test_a_document_tells_everything_of_a_schedule() -> None:
    row = make_schedule({"kind": "work", "hosts": "all"})
    ScheduleFire.objects.create(schedule=row, due_at=NOON, started=1, skipped=1, text="a\nb")
    (found,) = herder("schedules", "--json").document
    assert set(found) == {"name", "rhythm", "kind", "where", "enabled", "next_due", "last", "problem"}
    assert found["last"]["why"] == ["a", "b"]


def test_schedules_are_listed_by_name() -> None:
    rows = [make_schedule() for _ in range(3)]
    for row, name in zip(rows, ("b", "a", "c"), strict=True):
        PeriodicTask.objects.filter(pk=row.pk).update(name=name, task=SCHEDULE)
    assert [each.name for each in timetable(NOON)] == ["a", "b", "c"]
    assert make_host().pk
