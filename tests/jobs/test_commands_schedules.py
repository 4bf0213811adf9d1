"""`schedules`: when each runs next, when it ran, and what it skipped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from jobs.models import EngineSettings, ScheduleFire
from jobs.schedules import ensure, offset
from jobs.timetable import timetable
from tests.commands import herder

if TYPE_CHECKING:
    from hosts.models import Host

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)


def changed_at(row: PeriodicTask, moment: datetime) -> None:
    """The schedule as if it was edited last at `moment`."""
    PeriodicTask.objects.filter(pk=row.pk).update(date_changed=moment)


def nightly(name: str = "Night", zone: str = "UTC", **wish: object) -> PeriodicTask:
    """A schedule for 02:30, made at noon."""
    row = ensure(name, {"kind": "work", "hosts": "all", **wish}, cron="30 2 * * *", zone=zone)
    changed_at(row, NOON)
    return row


def test_no_schedules_are_said() -> None:
    assert "There are no schedules yet" in herder("schedules").out


def test_a_crontab_is_due_next_in_its_own_zone() -> None:
    nightly(zone="Europe/Berlin")
    (entry,) = timetable(NOON)
    assert entry.next_due == datetime(2026, 12, 1, 1, 30, tzinfo=UTC)
    assert entry.rhythm == "every day at 02:30 Europe/Berlin"


def test_an_interval_is_due_after_its_last_run() -> None:
    row = ensure("Often", {"kind": "chore"}, every_minutes=15)
    changed_at(row, NOON)
    (entry,) = timetable(NOON + timedelta(minutes=5))
    assert entry.next_due == NOON + timedelta(minutes=15)
    assert (entry.rhythm, entry.where) == ("every 15 min", "–")


def test_an_overdue_schedule_is_due_now() -> None:
    nightly()
    later = NOON + timedelta(days=2)
    (entry,) = timetable(later)
    assert entry.next_due == later


def test_a_spread_moves_the_next_run_to_the_places_of_the_schedules() -> None:
    first = datetime(2026, 12, 1, 2, 30, tzinfo=UTC)
    rows = [nightly(f"Night {number}", spread_min=60) for number in range(4)]
    entries = timetable(NOON)
    assert [entry.next_due for entry in entries] == [first + offset(row, timedelta(hours=1)) for row in rows]
    assert len({entry.next_due for entry in entries}) > 1


def test_an_overdue_schedule_still_keeps_its_place() -> None:
    row = nightly(spread_min=60)
    due = datetime(2026, 12, 1, 2, 30, tzinfo=UTC)
    (entry,) = timetable(due)
    assert entry.next_due == due + offset(row, timedelta(hours=1))


def test_a_schedule_that_is_off_has_no_next_run() -> None:
    row = nightly()
    PeriodicTask.objects.filter(pk=row.pk).update(enabled=False)
    assert timetable(NOON)[0].next_due is None
    assert " off " in herder("schedules").out


def test_what_was_skipped_is_shown_with_its_reason(host: Host) -> None:
    row = nightly(hosts="", host_id=host.pk)
    ScheduleFire.objects.create(
        schedule=row, due_at=NOON, fired_at=timezone.now(), started=2, skipped=1, text=f"{host.name}: skipped: paused"
    )
    out = herder("schedules").out
    assert out.splitlines()[1].split()[-2:] == ["2", "1"]
    assert out.splitlines()[-1] == f"Night     {host.name}: skipped: paused"


def test_a_schedule_that_cannot_be_read_is_named() -> None:
    row = nightly()
    PeriodicTask.objects.filter(pk=row.pk).update(kwargs="{broken")
    assert "Night     its arguments cannot be read" in herder("schedules").out


def test_json_holds_the_last_run(host: Host) -> None:
    row = nightly(hosts="", host_id=host.pk)
    ScheduleFire.objects.create(schedule=row, due_at=NOON, started=1)
    (entry,) = herder("schedules", "--json").document
    assert (entry["where"], entry["enabled"], entry["last"]["started"]) == (host.name, True, 1)


def test_a_hold_is_said(host: Host) -> None:
    nightly()
    EngineSettings.objects.create(pk=1, held_at=timezone.now())
    assert herder("schedules").err == "The herd is on hold: nothing fires until ./herder release.\n"
