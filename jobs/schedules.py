"""What is due and what a due time starts.

Schedules are django-celery-beat's `PeriodicTask` rows whose task is `SCHEDULE`; their `kwargs` say what to request:

    {"kind": "backup", "host_id": 7, "params": {}, "spread_min": 30}     or     {"kind": "host_facts", "hosts": "all"}

A due time starts at most one set of jobs, by the unique key (schedule, due time); runs that were missed while nothing
was there to fire them are made up for by one run.
"""

from __future__ import annotations

import json
import logging
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Case, F, When
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from jobs import registry
from jobs.models import Door, ScheduleFire
from jobs.registry import UnknownKind
from jobs.services import Asker, Refused, request_job

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)
SCHEDULE = "piherder.schedule"
OWED = {"held", "paused", "busy", "unavailable"}  # refusals that pass; owed only to kinds that catch up


@dataclass(frozen=True, slots=True)
class Wish:
    """What a schedule asks for."""

    kind: str
    host_id: int | None = None
    all_hosts: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    spread: timedelta = timedelta(0)

    @classmethod
    def of(cls, schedule: PeriodicTask) -> Wish:
        """The wish in a row's kwargs. Raises ValueError, KeyError or TypeError when they cannot be read."""
        raw = json.loads(schedule.kwargs or "{}")
        if not isinstance(raw, dict):
            raise TypeError("its keyword arguments are no JSON object")
        kind, host_id, params = raw["kind"], raw.get("host_id"), raw.get("params") or {}
        if not (isinstance(kind, str) and isinstance(host_id, int | None) and isinstance(params, dict)):
            raise TypeError("kind is a text, host_id a number and params an object")
        try:
            minutes = timedelta(minutes=float(raw.get("spread_min", 0)))
        except OverflowError:
            raise ValueError("its spread is longer than any calendar") from None
        return cls(kind, host_id, raw.get("hosts") == "all", params, minutes)


class Rhythm(Protocol):
    """What this module asks of Celery's schedules (an interval has `run_every`, a crontab `remaining_estimate`)."""

    nowfun: Callable[[], datetime]

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Time left until the run after `last_run_at`; negative when it is overdue."""


def due_since(schedule: Rhythm, last: datetime, now: datetime) -> datetime | None:
    """The first due time after `last` if it has come by `now`, else None. Times are aware; the answer is in UTC.

    A `last` that lies ahead (the clock was set back) counts as now.
    """
    last = min(last, now)
    every: timedelta | None = getattr(schedule, "run_every", None)
    if every is not None:
        return last + every if last + every <= now else None
    zone = getattr(schedule, "tz", timezone.get_default_timezone())
    schedule.nowfun = lambda: now.astimezone(zone)
    left = schedule.remaining_estimate(last.astimezone(zone))
    if left > timedelta(0):
        return None
    due = (now + left).astimezone(UTC) + timedelta(seconds=30)
    return due.replace(second=0, microsecond=0)


def offset(schedule: PeriodicTask, spread: timedelta) -> timedelta:
    """This schedule's place in its spread: always the same, so that schedules of one time do not all start at once.

    The hosts of one schedule come in together all the same, and take turns at the workers' slots.
    """
    seconds = int(spread.total_seconds())
    return timedelta(seconds=zlib.crc32(f"{schedule.pk}:{schedule.name}".encode()) % seconds if seconds else 0)


def last_of(schedule: PeriodicTask) -> datetime:
    """The moment from which due times count: the last run, or the last edit when that came later."""
    changed: datetime = schedule.date_changed or timezone.now()
    last: datetime = schedule.last_run_at or changed
    return max(last, changed)


def last_before(schedule: PeriodicTask, now: datetime) -> datetime:
    """`last_of`, but never ahead of `now`: after the clock was set back the row is told to count from now on.

    Without that each look would count from its own moment, and nothing would be due until the clock has caught up.
    """
    known: list[datetime] = [moment for moment in (schedule.last_run_at, schedule.date_changed) if moment is not None]
    past = [moment for moment in known if moment <= now]
    ahead = schedule.last_run_at is not None and schedule.last_run_at > now
    if past and not ahead:
        return max(past)
    PeriodicTask.objects.filter(pk=schedule.pk).update(last_run_at=now)
    return now


def may_fire(schedule: PeriodicTask, now: datetime) -> bool:
    """True between the row's own start and expiry, as the admin shows them."""
    started = schedule.start_time is None or schedule.start_time <= now
    return started and (schedule.expires is None or schedule.expires > now)


def run_due(now: datetime | None = None) -> list[ScheduleFire]:
    """Fire every enabled schedule that is due; returns the fires made by this call."""
    moment = now or timezone.now()
    fires = []
    for schedule in PeriodicTask.objects.filter(enabled=True, task=SCHEDULE).order_by("pk"):
        try:
            fire = fire_if_due(schedule, moment)
        except DatabaseError:
            raise
        except Exception:  # one schedule that is wrong must not keep the others from their time
            logger.exception("schedule %s cannot be carried out", schedule.name)
            continue
        fires += [fire] if fire else []
    return fires


def fire_if_due(schedule: PeriodicTask, now: datetime) -> ScheduleFire | None:
    """Fire one schedule when its time has come; None when it has not, or another beat was faster."""
    wish = Wish.of(schedule)
    if not may_fire(schedule, now):
        return None
    due = due_since(schedule.schedule, last_before(schedule, now), now)
    if due is None or due + offset(schedule, wish.spread) > now:
        return None
    fire = open_fire(schedule, due, now)
    if fire:
        carry(fire, wish)
    return fire


def open_fire(schedule: PeriodicTask, due: datetime, now: datetime) -> ScheduleFire | None:
    """The row that makes this due time ours; None when another beat has it."""
    ran = PeriodicTask.objects.filter(pk=schedule.pk)
    try:
        with transaction.atomic():
            fire = ScheduleFire.objects.create(schedule=schedule, due_at=due, fired_at=now)
            ran.update(
                last_run_at=now,
                total_run_count=F("total_run_count") + 1,
                enabled=Case(When(one_off=True, then=False), default=True),
            )
    except IntegrityError:
        # Fired before, under a clock that has been set back since: go on from here.
        ran.update(last_run_at=now)
        return None
    return fire


def carry(fire: ScheduleFire, wish: Wish) -> None:
    """Request what the fire stands for, host by host, passing over those that have their job. Raises UnknownKind."""
    done = set(fire.jobs.values_list("host_id", flat=True))
    words, owed, skipped = [], [], 0
    for host_id, name in _targets(wish).items():
        if host_id in done:
            continue
        code, text = _request(wish, host_id, fire)
        if code:
            skipped += 1
            words.append(f"{name}: {text}" if name else text)
        if code in OWED and registry.get(wish.kind).catch_up:
            owed.append(host_id)
    fire.started, fire.skipped, fire.owed = fire.jobs.count(), skipped, owed
    fire.text, fire.ended_at = "\n".join(words), timezone.now()
    fire.save()
    # One debt per host: what this fire started or owes stands for all that older ones owe.
    ScheduleFire.objects.filter(schedule=fire.schedule_id, pk__lt=fire.pk).exclude(owed=[]).update(owed=[])


def _targets(wish: Wish) -> dict[int | None, str]:
    herd = registry.gate().herd()
    if wish.all_hosts:
        family = registry.get(wish.kind)
        wanted = [pk for pk in herd if not family.schedule_skip(pk)]
        if family.reaches:  # all ports at once, here: a job for a host that is off then waits without taking a slot
            registry.gate().port_answers(wanted)
        return {pk: herd[pk] for pk in wanted}
    return {wish.host_id: herd.get(wish.host_id, "") if wish.host_id is not None else ""}


def _request(wish: Wish, host_id: int | None, fire: ScheduleFire) -> tuple[str, str]:
    """("", "") when the job was inserted, else a code and one sentence."""
    asker = Asker(Door.SCHEDULE, name=f"schedule {fire.schedule.name}"[:150])
    try:
        answer = request_job(wish.kind, host_id, wish.params, asker=asker, fire_id=fire.pk)
    except (Refused, UnknownKind) as refusal:
        return getattr(refusal, "code", "invalid"), f"skipped: {refusal}"
    return ("active", f"skipped: job {answer.job.pk} is still active") if answer.attached else ("", "")


def resume_fires() -> None:
    """Carry on fires that a beat began and did not end, for as long as they are fresh."""
    fresh = timezone.now() - timedelta(hours=1)
    for fire in ScheduleFire.objects.filter(ended_at__isnull=True, fired_at__gt=fresh).select_related("schedule"):
        try:
            carry(fire, Wish.of(fire.schedule))
        except (ValueError, KeyError, TypeError, UnknownKind) as error:
            logger.error("schedule %s cannot be carried on: %s", fire.schedule.name, error)


def ensure(name: str, wish: dict[str, Any], *, cron: str = "", every_minutes: int = 0, zone: str = "") -> PeriodicTask:
    """A schedule by that name, made when it is not there and never overwritten: the admin is where it is edited."""
    existing = PeriodicTask.objects.filter(name=name).first()
    if existing:
        return existing
    rhythm: dict[str, Any]
    if every_minutes:
        interval, _ = IntervalSchedule.objects.get_or_create(every=every_minutes, period=IntervalSchedule.MINUTES)
        rhythm = {"interval": interval}
    else:
        rhythm = {"crontab": crontab_row(cron, zone)}
    schedule, _ = PeriodicTask.objects.get_or_create(
        name=name, defaults={"task": SCHEDULE, "kwargs": json.dumps(wish), **rhythm}
    )
    return schedule


def crontab_row(cron: str, zone: str = "") -> CrontabSchedule:
    """The crontab row for five fields "minute hour day-of-month month day-of-week". Raises ValueError in words."""
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError(f"A cron line has five fields (minute hour day month weekday), not {len(fields)}: {cron!r}.")
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    values = dict(zip(names, fields, strict=True))
    key = {**values, "timezone": zone or timezone.get_default_timezone_name()}
    _refuse_unknown_zone(key["timezone"])
    try:
        CrontabSchedule(**key).full_clean(validate_unique=False)
    except ValidationError as error:
        raise ValueError(f"The cron line {cron!r} cannot be read: {'; '.join(error.messages)}") from None
    row, _ = CrontabSchedule.objects.get_or_create(**key)
    return row


def _refuse_unknown_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ValueError, KeyError, OSError):  # no such file, a folder of zones, a way out of the folder of zones
        raise ValueError(f"The time zone {zone!r} cannot be read: name one such as Europe/Berlin.") from None
