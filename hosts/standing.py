"""What stands badly with the backups of the herd: hosts without a fresh one, damage found, schedules that only skip."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts import generations
from hosts.models import Source
from jobs.models import ScheduleFire
from jobs.schedules import SCHEDULE, Wish

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.db.models import QuerySet

FRESH = timedelta(days=3)
PERIODS = 3  # a backup may be this many of its schedule's periods old
SKIPS = 3
LOOK_BACK = timedelta(days=60)
MOST = 20  # sentences of one sort


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that stands badly: what it is, the command that helps, and the host it is about; "" where none is."""

    words: str
    way: str = ""
    host: str = ""

    def __str__(self) -> str:
        """The sentence for a terminal."""
        return f"{self.words}: {self.way}" if self.way else self.words


@dataclass(frozen=True, slots=True)
class Rhythms:
    """How often backups are due: of single hosts by id, and of the whole herd (None: not at all)."""

    of_host: dict[int, timedelta]
    of_all: timedelta | None

    def period(self, host_id: int) -> timedelta | None:
        """The shorter one of the two; None when no schedule backs the host up."""
        known = [each for each in (self.of_host.get(host_id), self.of_all) if each is not None]
        return min(known, default=None)


def problems(now: datetime | None = None) -> list[str]:
    """One sentence each, the most of each sort bounded; five queries whatever the number of hosts."""
    moment = now or timezone.now()
    sorts = (late(moment).values(), damaged(), skipping(moment))
    return [sentence for sort in sorts for sentence in bounded(map(str, sort))]


def scheduled() -> QuerySet[PeriodicTask]:
    """The schedules that start jobs."""
    rows: QuerySet[PeriodicTask] = PeriodicTask.objects.filter(enabled=True, task=SCHEDULE)
    return rows.select_related("crontab", "interval")


def late(now: datetime, rows: Iterable[PeriodicTask] | None = None) -> dict[int, Trouble]:
    """The trouble of each host whose backups are too old, or that has none, by id. Paused ones are left in peace.

    `rows` are those of `scheduled` where the caller has them.
    """
    schedules = rhythms(scheduled() if rows is None else rows)
    found: dict[int, Source] = {}
    sources = Source.objects.filter(enabled=True, host__removed_at__isnull=True).select_related("host")
    for source in sources.order_by("host__name", F("last_good_at").asc(nulls_first=True)):
        found.setdefault(source.host_id, source)
    awake = {pk: source for pk, source in found.items() if not source.host.paused(now)}
    said = {pk: words(source, schedules.period(pk), now) for pk, source in awake.items()}
    return {pk: trouble for pk, trouble in said.items() if trouble}


def words(oldest: Source, period: timedelta | None, now: datetime) -> Trouble | None:
    """The trouble of the host whose source with the oldest backup this is, None when all is well."""
    name = oldest.host.name
    if oldest.last_good_at is None:
        what = name if oldest.host.last_backup_at is None else f"{oldest.path} of {name}"
        return Trouble(f"{what} was never backed up", f"./herder run_job backup --host {name}", name)
    age = now - oldest.last_good_at
    if period is None or age <= max(FRESH, PERIODS * period):
        return None
    said = f"The last good backup of {oldest.path} on {name} is {age.days} days old"
    return Trouble(said, f"./herder jobs --host {name}", name)


def rhythms(rows: Iterable[PeriodicTask]) -> Rhythms:
    """The periods of the schedules that make backups; rows that cannot be read are passed over."""
    single: dict[int, timedelta] = {}
    everyone: list[timedelta] = []
    known: dict[tuple[int | None, int | None], timedelta] = {}  # most hosts share one cron line
    for row in rows:
        try:
            wish = Wish.of(row)
        except (ValueError, KeyError, TypeError):
            continue
        if wish.kind != "backup":
            continue
        key = (row.crontab_id, row.interval_id)
        period = known[key] = known.get(key) or period_of(row)
        if wish.all_hosts:
            everyone.append(period)
        elif wish.host_id is not None:
            single[wish.host_id] = min(period, single.get(wish.host_id, timedelta.max))
    return Rhythms(single, min(everyone, default=None))


def period_of(row: PeriodicTask) -> timedelta:
    """The longest of the next pauses between two runs."""
    schedule = row.schedule
    every: timedelta | None = getattr(schedule, "run_every", None)
    if every is not None:
        return every
    moments = [timezone.localtime(timezone=getattr(schedule, "tz", None))]
    for _ in range(4):
        schedule.nowfun = partial(moments.__getitem__, -1)
        moments.append(moments[-1] + schedule.remaining_estimate(moments[-1]))
    return max(later - earlier for earlier, later in pairwise(moments[1:]))


def damaged() -> list[Trouble]:
    """Sources in which a verification found damage: nothing newer of them was read whole since."""
    rows = (
        generations.damaged()
        .filter(source__host__removed_at__isnull=True)
        .select_related("source__host")
        .order_by("source__host__name", "source__path", "-sequence")
    )
    seen: dict[int, Trouble] = {}
    for row in rows[: MOST * 10]:
        name = row.source.host.name
        seen.setdefault(row.source_id, Trouble(f"{name}: {row.verify_problem}", host=name))
    return list(seen.values())


def skipping(now: datetime) -> list[Trouble]:
    """Schedules whose last fires started nothing although there was something to start; wanted pauses do not count."""
    recent = (
        ScheduleFire.objects.filter(fired_at__gt=now - LOOK_BACK, ended_at__isnull=False, schedule__enabled=True)
        .annotate(place=Window(RowNumber(), partition_by="schedule_id", order_by="-id"))
        .filter(place__lte=SKIPS)
        .select_related("schedule")
        .order_by("schedule__name", "-id")
    )
    fires: dict[int, list[ScheduleFire]] = {}
    for fire in recent:
        fires.setdefault(fire.schedule_id, []).append(fire)
    idle = [last for last in fires.values() if len(last) == SKIPS and all(map(was_skipped, last))]
    return [skipped_words(last[0]) for last in idle]


def was_skipped(fire: ScheduleFire) -> bool:
    """Nothing was started, and not because someone holds or paused the hosts."""
    return fire.started == 0 and fire.skipped > len(fire.owed)


def skipped_words(fire: Any) -> Trouble:
    """The schedule and why it was skipped last."""
    why = (fire.text.splitlines() or ["no reason was noted"])[0].rstrip(".")
    said = f"The schedule {fire.schedule.name} was skipped {SKIPS} times in a row or more ({why})"
    return Trouble(said, "./herder schedules")


def bounded(sentences: Iterable[str]) -> list[str]:
    """At most `MOST`, and how many more there are."""
    said = list(sentences)
    more = len(said) - MOST
    return said if more <= 0 else [*said[:MOST], f"{more} more of this sort."]
