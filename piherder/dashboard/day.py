"""The day line: the last 24 hours, one row a host, every job a bar.

Places are percent of the width, so that one drawing fits a wall and a phone and nothing is stretched.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from jobs.models import Status
from piherder.dashboard.recent import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from jobs.models import Job
    from piherder.dashboard.recent import Recent

MOST = 40  # rows
TICK = 6  # hours between two lines
# Height and top of a bar in a row of 20 pixels: the verdict can be told without its colour.
SHAPES = {Status.SUCCEEDED: (6, 8), Status.FAILED: (1, 18), Status.CANCELLED: (9, 3)}
RUNNING = (4, 12)


@dataclass(frozen=True, slots=True)
class Bar:
    """One job: where it begins and how long it is (percent of the day), and its shape (pixels)."""

    job: Job
    left: float
    width: float
    top: int
    height: int


@dataclass(frozen=True, slots=True)
class Line:
    """One row: the host's name, "" for work without a host, and its bars."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A full hour: its place (percent), and its name."""

    left: float
    words: str


@dataclass(frozen=True, slots=True)
class Day:
    """The drawing; `hidden` rows did not fit."""

    lines: tuple[Line, ...]
    ticks: tuple[Tick, ...]
    hidden: int


def day(found: Recent) -> Day:
    """Draw what was at work until now."""
    begin = found.now - DAY
    rows: dict[str, list[Bar]] = {}
    for job in found.of_the_day():
        rows.setdefault(job.where, []).append(bar(job, begin, found.now))
    names = sorted(rows, key=lambda name: (not name, name))
    lines = tuple(Line(name, tuple(rows[name])) for name in names[:MOST])
    return Day(lines, tuple(ticks(begin, found.now)), len(names) - len(lines))


def bar(job: Job, begin: datetime, now: datetime) -> Bar:
    """A job's bar; what began before the day begins at its edge."""
    since, until = job.started_at or now, job.finished_at or now
    left = percent(since - begin)
    top, height = SHAPES.get(Status(job.status), RUNNING)
    return Bar(job, left, round(max(0.0, percent(until - begin) - left), 3), top, height)


def percent(length: timedelta) -> float:
    """A length of time as a share of the day; a clock that was set leads nowhere outside."""
    return round(min(100.0, max(0.0, 100 * (length / DAY))), 3)


def ticks(begin: datetime, end: datetime) -> Iterable[Tick]:
    """Every sixth full hour by the wall clock of this site; counted in UTC, as that clock changes twice a year."""
    moment = timezone.localtime(begin).replace(minute=0, second=0, microsecond=0).astimezone(UTC)
    while (moment := moment + timedelta(hours=1)) < end:
        local = timezone.localtime(moment)
        if local.hour % TICK == 0:
            yield Tick(percent(moment - begin), f"{local:%H:%M}")
