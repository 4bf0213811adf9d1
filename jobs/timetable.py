"""When schedules run next and what became of their last run, for those who show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from jobs import registry
from jobs.models import ScheduleFire
from jobs.schedules import SCHEDULE, Wish, due_since, last_of, offset


@dataclass(frozen=True, slots=True)
class Entry:
    """One schedule as it stands; `next_due` is None for one that is off or cannot be read."""

    name: str
    rhythm: str
    kind: str
    where: str
    enabled: bool
    next_due: datetime | None
    last: ScheduleFire | None
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """For a program; moments are datetimes or None."""
        last = self.last
        fire = last and {
            "due_at": last.due_at, "fired_at": last.fired_at, "started": last.started, "skipped": last.skipped,
            "why": last.text.splitlines(),
        }  # fmt: skip
        return {
            "name": self.name, "rhythm": self.rhythm, "kind": self.kind, "where": self.where, "enabled": self.enabled,
            "next_due": self.next_due, "last": fire, "problem": self.problem,
        }  # fmt: skip


def timetable(now: datetime | None = None) -> list[Entry]:
    """Every schedule of jobs and every chore, by name."""
    moment = now or timezone.now()
    herd = registry.gate().herd()
    rows = PeriodicTask.objects.exclude(task="celery.backend_cleanup").select_related("crontab", "interval")
    return [_entry(row, herd, moment) for row in rows.order_by("name")]


def _entry(row: PeriodicTask, herd: dict[int, str], now: datetime) -> Entry:
    rhythm = rhythm_words(row)
    last = ScheduleFire.objects.filter(schedule=row).order_by("-id").first()
    if row.solar:
        return Entry(row.name, rhythm, "?", "?", row.enabled, None, last, "the sun is not followed: use a cron line")
    if row.task != SCHEDULE:
        return Entry(row.name, rhythm, row.task, "–", row.enabled, next_due(row, Wish(""), now), last)
    try:
        wish = Wish.of(row)
    except (ValueError, KeyError, TypeError, json.JSONDecodeError):
        return Entry(row.name, rhythm, "?", "?", row.enabled, None, last, "its arguments cannot be read")
    where = "all hosts" if wish.all_hosts else _place(wish.host_id, herd)
    return Entry(row.name, rhythm, wish.kind, where, row.enabled, next_due(row, wish, now), last)


def _place(host_id: int | None, herd: dict[int, str]) -> str:
    return "–" if host_id is None else herd.get(host_id, f"host {host_id} (removed)")


def next_due(row: PeriodicTask, wish: Wish, now: datetime) -> datetime | None:
    """The moment of the next run with the schedule's place in its spread, in UTC; `now` when it is overdue."""
    if not row.enabled:
        return None
    schedule, last = row.schedule, min(last_of(row), now)
    late = due_since(schedule, last, now)
    if late is not None:
        return max(now, late + offset(row, wish.spread))
    every = getattr(schedule, "run_every", None)
    if every is not None:
        coming = last + every
    else:
        zone = getattr(schedule, "tz", timezone.get_default_timezone())
        schedule.nowfun = lambda: now.astimezone(zone)
        coming = now + schedule.remaining_estimate(last.astimezone(zone))
    due: datetime = (coming + offset(row, wish.spread)).astimezone(UTC)
    return due.replace(microsecond=0)


DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def rhythm_words(row: PeriodicTask) -> str:
    """ "every 15 min", "every day at 03:30 UTC", or a cron line with its zone where no short words say the same."""
    if row.interval:
        unit = {"minutes": "min", "hours": "h", "seconds": "s", "days": "d"}.get(
            row.interval.period, row.interval.period
        )
        return f"every {row.interval.every} {unit}"
    if row.crontab:
        return _cron_words(row.crontab)
    return f"at {row.solar.event}" if row.solar else str(row.schedule)


def _cron_words(cron: CrontabSchedule) -> str:
    fields = (cron.minute, cron.hour, cron.day_of_month, cron.month_of_year, cron.day_of_week)
    day = _day_words(cron.day_of_week)
    if day and fields[2:4] == ("*", "*") and cron.minute.isdecimal() and cron.hour.isdecimal():
        return f"every {day} at {int(cron.hour):02d}:{int(cron.minute):02d} {cron.timezone}"
    return f"{' '.join(fields)} {cron.timezone}"


def _day_words(day_of_week: str) -> str:
    """The name of a single weekday (0 and 7 are both Sunday), "day" for all of them, "" for anything else."""
    if day_of_week == "*":
        return "day"
    if day_of_week.isdecimal():
        return DAYS[int(day_of_week)] if int(day_of_week) < len(DAYS) else ""
    return next((name for name in DAYS if name[:3].lower() == day_of_week.lower()), "")
