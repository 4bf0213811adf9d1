"""What the schedules start next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs import registry
from jobs.registry import UnknownKind
from jobs.schedules import Wish
from jobs.timetable import next_due, rhythm_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from django_celery_beat.models import PeriodicTask

    from hosts.glance import Glance

MOST = 6


@dataclass(frozen=True, slots=True)
class Coming:
    """One schedule's next time: when, what, on which host ("" for none), and its rhythm in words."""

    at: datetime
    label: str
    where: str
    rhythm: str


def coming(schedules: Iterable[PeriodicTask], hosts: Sequence[Glance], now: datetime) -> list[Coming]:
    """The next ones, soonest first; a schedule that cannot be read is for the list of schedules to tell."""
    names = {glance.host.pk: glance.host.name for glance in hosts}
    return sorted(_all(schedules, names, now), key=lambda each: each.at)[:MOST]


def _all(schedules: Iterable[PeriodicTask], names: dict[int, str], now: datetime) -> Iterator[Coming]:
    for row in schedules:
        try:
            wish = Wish.of(row)
            at = next_due(row, wish, now)
            label = registry.get(wish.kind).label
        except (ValueError, KeyError, TypeError, UnknownKind):
            continue
        where = "all hosts" if wish.all_hosts else names.get(wish.host_id or 0, "")
        if at is not None and (where or wish.host_id is None):
            yield Coming(at, label, where, rhythm_words(row))
