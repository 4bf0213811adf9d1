"""Each due time starts its jobs once: whatever the zone, the clock, the number of beats and the time nobody looked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, PeriodicTask

from jobs import schedules
from jobs.models import Door, Job, ScheduleFire
from jobs.schedules import crontab_row, due_since, ensure, offset, resume_fires, run_due
from tests.factories import make_host, make_job
from tests.jobs.kinds import Look
from tests.jobs.schedule_rows import NOON, fired, make_fire, make_schedule

if TYPE_CHECKING:
    from hosts.models import Host
    from tests.jobs.gate import FakeGate

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def dues(cron: str, zone: str, start: datetime, end: datetime, step: timedelta = MINUTE) -> list[str]:
    """Every due time met by somebody who looks each `step`, in local time."""
    schedule, last, now, found = crontab_row(cron, zone).schedule, start, start, []
    while now < end:
        now += step
        due = due_since(schedule, last, now)
        if due:
            found.append(f"{due.astimezone(ZoneInfo(zone)):%d %H:%M%z}")
            last = now
    return found


# --- due times --------------------------------------------------------------------------------------------------------


def test_a_cron_line_is_meant_in_its_zone() -> None:
    start = datetime(2026, 6, 1, 0, 0, tzinfo=UTC)
    assert dues("0 14 * * *", "Europe/Berlin", start, start + timedelta(days=1)) == ["01 14:00+0200"]
    assert dues("0 14 * * *", "America/New_York", start, start + timedelta(days=1)) == ["01 14:00-0400"]


def test_the_clocks_go_forward() -> None:
    # case H11
    start = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    day = start + timedelta(hours=22)
    assert dues("0 14 * * *", "Europe/Berlin", start, day) == ["29 14:00+0200"]
    assert dues("30 2 * * *", "Europe/Berlin", start, day) == ["29 03:30+0200"]


@pytest.mark.parametrize("cron", ["0 12 * * 0", "30 2 * * *"])
def test_the_clocks_go_back(cron: str) -> None:
    # case H13
    start = datetime(2026, 10, 24, 22, 30, tzinfo=UTC)
    assert len(dues(cron, "Europe/Amsterdam", start, start + timedelta(hours=24))) == 1


def test_a_daily_run_that_was_missed_is_due_once() -> None:
    last = datetime(2026, 6, 1, 2, 30, tzinfo=UTC)
    schedule = crontab_row("30 2 * * *", "UTC").schedule
    now = datetime(2026, 6, 4, 6, 31, tzinfo=UTC)
    assert due_since(schedule, last, now) == datetime(2026, 6, 2, 2, 30, tzinfo=UTC)
    assert due_since(schedule, now, now + MINUTE) is None


def test_nothing_is_due_a_second_early() -> None:
    schedule = crontab_row("0 12 * * *", "UTC").schedule
    assert due_since(schedule, NOON - timedelta(hours=1), NOON - timedelta(seconds=1)) is None
    assert due_since(schedule, NOON - timedelta(hours=1), NOON) == NOON


def test_an_interval_counts_from_the_last_run() -> None:
    schedule = make_schedule().schedule
    assert due_since(schedule, NOON, NOON + 9 * MINUTE) is None
    assert due_since(schedule, NOON, NOON + 10 * MINUTE) == NOON + 10 * MINUTE


def test_a_last_run_that_lies_ahead_is_not_due() -> None:
    assert due_since(make_schedule().schedule, NOON + timedelta(hours=3), NOON) is None


@pytest.mark.parametrize(
    ("cron", "words"), [("* * *", "five fields"), ("99 * * * *", "cannot be read"), ("a b c d e", "cannot be read")]
)
def test_a_bad_cron_line_is_refused_in_words(cron: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        crontab_row(cron)


# --- firing -----------------------------------------------------------------------------------------------------------


def test_a_due_schedule_starts_its_job() -> None:
    schedule = make_schedule(last_run_at=NOON)
    (fire,) = run_due(NOON + 10 * MINUTE)
    job = Job.objects.get()
    assert (job.kind, job.door, job.fire) == ("chore", Door.SCHEDULE, fire)
    assert job.requested_name == f"schedule {schedule.name}"
    assert (fire.started, fire.skipped, fire.due_at) == (1, 0, NOON + 10 * MINUTE)
    assert fire.ended_at


def test_two_beats_fire_once() -> None:
    # case H09
    make_schedule(last_run_at=NOON)
    stale = PeriodicTask.objects.get(task=schedules.SCHEDULE)
    now = NOON + 10 * MINUTE
    assert schedules.open_fire(PeriodicTask.objects.get(pk=stale.pk), now, now)
    assert schedules.open_fire(stale, now, now) is None
    assert run_due(now) == []


def test_many_missed_runs_are_one() -> None:
    # case H25
    make_schedule(last_run_at=NOON)
    for second in range(0, 60, 2):
        run_due(NOON + timedelta(hours=20, seconds=second))
    assert (ScheduleFire.objects.count(), Job.objects.count()) == (1, 1)


def test_a_disabled_schedule_rests() -> None:
    make_schedule(last_run_at=NOON, enabled=False)
    assert run_due(NOON + timedelta(days=1)) == []


@pytest.mark.parametrize("fields", [{"start_time": NOON + timedelta(days=2)}, {"expires": NOON}])
def test_a_schedule_keeps_within_its_own_time(fields: dict[str, Any]) -> None:
    make_schedule(last_run_at=NOON, **fields)
    assert run_due(NOON + timedelta(days=1)) == []


def test_a_schedule_for_once_fires_once() -> None:
    make_schedule(last_run_at=NOON, one_off=True)
    assert len(run_due(NOON + timedelta(hours=1))) == 1
    Job.objects.all().delete()
    assert run_due(NOON + timedelta(hours=2)) == []


def test_a_moment_on_the_clock_fires_once() -> None:
    clocked = ClockedSchedule.objects.create(clocked_time=NOON)
    schedule = make_schedule(last_run_at=NOON - timedelta(days=1), one_off=True, clocked=clocked, interval=None)
    assert run_due(NOON - MINUTE) == []
    assert len(run_due(NOON + MINUTE)) == 1
    schedule.refresh_from_db()
    assert not schedule.enabled


def test_a_clock_that_was_set_back_silences_no_schedule() -> None:
    make_schedule(last_run_at=NOON)
    looks = [NOON - timedelta(hours=3) + minute * MINUTE for minute in range(25)]
    assert sum(len(run_due(look)) for look in looks) == 2


def test_a_daily_schedule_outlives_a_clock_that_was_set_back() -> None:
    make_schedule(cron="0 12 * * *", zone="UTC", last_run_at=NOON + timedelta(hours=3))
    looks = [NOON - 10 * MINUTE + minute * MINUTE for minute in range(20)]
    assert [fire.due_at for look in looks for fire in run_due(look)] == [NOON]


def test_an_edit_counts_as_a_beginning() -> None:
    make_schedule(cron="0 12 * * *", zone="UTC", last_run_at=NOON - timedelta(days=9), date_changed=NOON + MINUTE)
    assert run_due(NOON + 2 * MINUTE) == []


def test_a_schedule_is_spread_and_stays_where_it_is() -> None:
    hour = timedelta(hours=1)
    rows = [make_schedule() for _ in range(8)]
    places = [offset(row, hour) for row in rows]
    assert places == [offset(row, hour) for row in rows]
    assert len(set(places)) > 4
    assert all(timedelta(0) <= place < hour for place in places)
    assert offset(rows[0], timedelta(0)) == timedelta(0)


def test_a_spread_schedule_waits_for_its_place() -> None:
    row = make_schedule({"kind": "chore", "spread_min": 30}, last_run_at=NOON)
    place = NOON + 10 * MINUTE + offset(row, 30 * MINUTE)
    assert run_due(place - timedelta(seconds=1)) == []
    assert len(run_due(place)) == 1


@pytest.mark.parametrize(
    "kwargs", ["{", "[]", "{}", '{"kind": "nope", "hosts": "all"}', '{"kind": "chore", "spread_min": "x"}']
)
def test_a_schedule_that_is_wrong_keeps_no_other_from_its_time(kwargs: str) -> None:
    make_schedule(last_run_at=NOON, kwargs=kwargs)
    make_schedule(last_run_at=NOON)
    run_due(NOON + 10 * MINUTE)
    assert [job.kind for job in Job.objects.all()] == ["chore"]


# --- one schedule, many hosts -----------------------------------------------------------------------------------------


def test_a_schedule_for_all_hosts_looks_at_all_their_ports_first(host: Host, gate: FakeGate) -> None:
    other = make_host()
    fired({"kind": "look", "hosts": "all"})
    assert gate.probed == [host.pk, other.pk]


def test_a_schedule_for_all_hosts_starts_one_job_each(host: Host) -> None:
    other, _ = make_host(), make_host(removed_at=timezone.now())
    fired({"kind": "look", "hosts": "all"})
    assert set(Job.objects.values_list("host_id", flat=True)) == {host.pk, other.pk}


def test_a_kind_may_pass_a_host_over(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_host()
    monkeypatch.setattr(Look, "schedule_skip", lambda self, pk: "no" if pk == other.pk else "")
    assert fired({"kind": "look", "hosts": "all"}).started == 1


def test_a_run_that_is_still_active_is_skipped_and_said(host: Host) -> None:
    # case C18
    first = make_job("look", host, {"tag": ""})
    fire = fired({"kind": "look", "host_id": host.pk})
    assert (fire.started, fire.skipped) == (0, 1)
    assert fire.text == f"{host.name}: skipped: job {first.pk} is still active"


def test_a_busy_lane_is_skipped_and_said(host: Host) -> None:
    first = make_job("wide", host)
    fire = fired({"kind": "look", "host_id": host.pk})
    assert f"{host.name}: skipped: Look cannot start: job {first.pk}" in fire.text
    assert fire.owed == []


def test_a_fire_that_broke_off_is_carried_on(host: Host) -> None:
    other = make_host()
    fire = make_fire(make_schedule({"kind": "look", "hosts": "all"}), ended_at=None)
    make_job("look", host, fire_id=fire.pk)
    resume_fires()
    fire.refresh_from_db()
    assert (fire.started, fire.skipped) == (2, 0)
    assert Job.objects.filter(host=other).exists()


def test_an_old_fire_is_not_carried_on() -> None:
    make_fire(ended_at=None, fired_at=timezone.now() - timedelta(hours=2))
    resume_fires()
    assert not Job.objects.exists()


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_default_schedule_is_made_once_and_never_overwritten() -> None:
    row = ensure("Nightly", {"kind": "chore"}, cron="30 2 * * *", zone="Europe/Berlin")
    PeriodicTask.objects.filter(pk=row.pk).update(enabled=False)
    again = ensure("Nightly", {"kind": "look"}, every_minutes=5)
    assert (again.pk, again.enabled, json.loads(again.kwargs)) == (row.pk, False, {"kind": "chore"})
    assert str(row.crontab.timezone) == "Europe/Berlin"


def test_an_interval_schedule_shares_its_rhythm() -> None:
    first = ensure("A", {"kind": "chore"}, every_minutes=15)
    assert ensure("B", {"kind": "chore"}, every_minutes=15).interval == first.interval
