"""What is due and what a due time starts. Schedules are django-celery-beat's `PeriodicTask` rows whose task is `SCHEDULE`;
their `kwargs` say what to request:

    {"kind": "backup", "host_id": 7, "params": {}, "spread_min": 30}     or     {"kind": "host_facts", "hosts": "all"}

A due time starts at most one set of jobs, by the unique key (schedule, due time); runs that were missed while nothing
was there to fire them are made up for by one run.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from jobs import registry
from jobs.models import Door, EngineSettings, Failure, Job, ScheduleFire, Status
from jobs.registry import UnknownKind
from jobs.services import Asker, Refused, request_job

logger = logging.getLogger(__name__)
SCHEDULE = "piherder.schedule"
OWED = {"held", "paused"}
KEEP_OWED = timedelta(days=30)


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
        """The wish in a row's kwargs. Raises ValueError or KeyError when they cannot be read."""
        raw = json.loads(schedule.kwargs or "{}")
        minutes = timedelta(minutes=float(raw.get("spread_min", 0)))
        return cls(raw["kind"], raw.get("host_id"), raw.get("hosts") == "all", raw.get("params") or {}, minutes)


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
    """This schedule's place in its spread: always the same, so that hosts do not all start at once."""
    seconds = int(spread.total_seconds())
    return timedelta(seconds=zlib.crc32(f"{schedule.pk}:{schedule.name}".encode()) % seconds if seconds else 0)


def last_of(schedule: PeriodicTask) -> datetime:
    """The moment from which due times count: the last run, or the last edit when that came later."""
    changed = schedule.date_changed or timezone.now()
    return max(schedule.last_run_at or changed, changed)


def run_due(now: datetime | None = None) -> list[ScheduleFire]:
    """Fire every enabled schedule that is due; returns the fires made by this call."""
    moment = now or timezone.now()
    fires = []
    for schedule in PeriodicTask.objects.filter(enabled=True, task=SCHEDULE).order_by("pk"):
        try:
            wish = Wish.of(schedule)
        except (ValueError, KeyError, TypeError) as error:
            logger.error("schedule %s cannot be read: %s", schedule.name, error)
            continue
        due = due_since(schedule.schedule, last_of(schedule), moment)
        if due is not None and due + offset(schedule, wish.spread) <= moment:
            fire = open_fire(schedule, due, moment)
            fires += [fire] if fire and carry(fire, wish) else []
    return fires


def open_fire(schedule: PeriodicTask, due: datetime, now: datetime) -> ScheduleFire | None:
    """The row that makes this due time ours; None when another beat has it."""
    ran = PeriodicTask.objects.filter(pk=schedule.pk)
    try:
        with transaction.atomic():
            fire = ScheduleFire.objects.create(schedule=schedule, due_at=due, fired_at=now)
            ran.update(last_run_at=now, total_run_count=F("total_run_count") + 1)
    except IntegrityError:
        # Fired before, under a clock that has been set back since: go on from here.
        ran.update(last_run_at=now)
        return None
    return fire


def carry(fire: ScheduleFire, wish: Wish) -> bool:
    """Request what the fire stands for, host by host, passing over those that have their job; always True."""
    done = set(fire.jobs.values_list("host_id", flat=True))
    words, owed, skipped = [], [], 0
    for host_id, name in _targets(wish).items():
        if host_id in done:
            continue
        code, text = _request(wish, host_id, fire)
        if code:
            skipped += 1
            words.append(f"{name}: {text}" if name else text)
        if code in OWED:
            owed.append(host_id)
    fire.started, fire.skipped, fire.owed = fire.jobs.count(), skipped, owed
    fire.text, fire.ended_at = "\n".join(words), timezone.now()
    fire.save()
    return True


def _targets(wish: Wish) -> dict[int | None, str]:
    herd = registry.gate().herd()
    if wish.all_hosts:
        family = registry.get(wish.kind)
        return {pk: name for pk, name in herd.items() if not family.schedule_skip(pk)}
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
        except (ValueError, KeyError, UnknownKind) as error:
            logger.error("schedule %s cannot be carried on: %s", fire.schedule.name, error)


def make_up() -> list[Job]:
    """Start what is owed: runs missed while their host was away or paused, once each, when the host is there again."""
    if EngineSettings.load().held:
        return []
    return [*_make_up_paused(), *_make_up_unreachable()]


def _make_up_paused() -> list[Job]:
    started = []
    recent = ScheduleFire.objects.exclude(owed=[]).filter(fired_at__gt=timezone.now() - KEEP_OWED)
    for fire in recent.select_related("schedule"):
        wish = Wish.of(fire.schedule)
        still = []
        for host_id in fire.owed:
            if host_id is not None and registry.gate().paused(host_id):
                still.append(host_id)
            elif not Job.objects.filter(kind=wish.kind, host_id=host_id, created_at__gt=fire.fired_at).exists():
                started += _again(wish.kind, host_id, wish.params, fire)
        if still != fire.owed:
            ScheduleFire.objects.filter(pk=fire.pk).update(owed=still)
    return started


def _make_up_unreachable() -> list[Job]:
    started = []
    missed = Job.objects.filter(
        kind__in=[family.kind for family in registry.kinds() if family.catch_up],
        status=Status.FAILED,
        failure=Failure.HOST_UNREACHABLE,
        fire__isnull=False,
        finished_at__gt=timezone.now() - KEEP_OWED,
    )
    for job in missed.select_related("fire__schedule").order_by("-id"):
        newer = Job.objects.filter(kind=job.kind, host_id=job.host_id, pk__gt=job.pk).exists()
        assert job.host_id is not None and job.finished_at is not None and job.fire is not None
        if not newer and registry.gate().seen_since(job.host_id, job.finished_at):
            started += _again(job.kind, job.host_id, job.params, job.fire)
    return started


def _again(kind: str, host_id: int | None, params: dict[str, Any], fire: ScheduleFire) -> list[Job]:
    asker = Asker(Door.SCHEDULE, name=f"missed run of {fire.schedule.name}"[:150])
    try:
        return [request_job(kind, host_id, params, asker=asker, fire_id=fire.pk).job]
    except Refused as refusal:
        logger.info("the missed run of %s was not started: %s", fire.schedule.name, refusal)
        return []


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
    try:
        CrontabSchedule(**key).full_clean(validate_unique=False)
    except ValidationError as error:
        raise ValueError(f"The cron line {cron!r} cannot be read: {'; '.join(error.messages)}") from None
    row, _ = CrontabSchedule.objects.get_or_create(**key)
    return row
