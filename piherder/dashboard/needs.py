"""What needs a person: one sentence each, the worst first, each with the page where something can be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.urls import reverse

from hosts import standing
from hosts.glance import NEVER
from jobs import registry
from jobs.models import Failure, WaitingOn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from django_celery_beat.models import PeriodicTask

    from hosts.glance import Glance
    from hosts.standing import Trouble
    from piherder.dashboard.recent import Recent

MOST = 30
MANY, NAMED = 3, 8  # hosts with the same warning that share a line, and how many of them it names
PATIENCE = timedelta(minutes=1)
UNCLAIMED = (WaitingOn.NOTHING, WaitingOn.WORKER)
ORDER = ("bad", "warn", "paused")  # names of icons and colours


@dataclass(frozen=True, slots=True)
class Need:
    """One of them; `subject` is the link's text, `since` the moment it began where that is known."""

    level: str
    subject: str
    words: str
    link: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """Those that are shown, and how many more there are."""

    shown: tuple[Need, ...]
    more: int


def needs(hosts: Sequence[Glance], found: Recent, schedules: Iterable[PeriodicTask], *, held: bool) -> Needs:
    """All of them; while the herd is on hold nobody expects backups."""
    late = {} if held else standing.late(found.now, schedules)
    every = [
        *_workers(found),
        *_failures(found, hosts),
        *(need for glance in hosts for need in _of_host(glance, late.get(glance.host.pk))),
        *_damages(),
        *([] if held else _skipping(found.now)),
    ]
    ranked = sorted(together(every), key=lambda need: ORDER.index(need.level))
    return Needs(tuple(ranked[:MOST]), max(0, len(ranked) - MOST))


def together(every: Iterable[Need]) -> list[Need]:
    """Needs in their order, but a warning that many hosts share is said once."""
    same: dict[tuple[str, str], list[Need]] = {}
    for need in every:
        same.setdefault((need.level, need.words), []).append(need)
    return [need for needs in same.values() for need in (needs if len(needs) < MANY else [_shared(needs)])]


def _shared(needs: list[Need]) -> Need:
    names = ", ".join(need.subject for need in needs[:NAMED])
    more = f" and {len(needs) - NAMED} more" if len(needs) > NAMED else ""
    return Need(needs[0].level, f"{len(needs)} hosts", f"{needs[0].words} ({names}{more})", reverse("hosts"))


def _workers(found: Recent) -> Iterator[Need]:
    """Jobs that nobody takes although no other job keeps a worker busy."""
    queued = [job for job in found.active if job.waiting_on in UNCLAIMED and not (job.attempt or job.waiting_why)]
    if len(queued) < len(found.active) or not queued or queued[0].created_at > found.now - PATIENCE:
        return
    count = "1 job waits" if len(queued) == 1 else f"{len(queued)} jobs wait"
    link = f"{reverse('jobs')}?status=active"
    yield Need("bad", "Workers", f"{count} and no worker takes any: start one, or ask ./herder status.", link)


def _failures(found: Recent, hosts: Sequence[Glance]) -> Iterator[Need]:
    """Failed jobs; that a host is down, and what failed by it, is said once."""
    down = {glance.host.pk for glance in hosts if glance.state == "down"}
    known = {glance.host.pk for glance in hosts}
    for job in found.failed():
        gone = job.host_id is not None and job.host_id not in known
        if gone or (job.host_id in down and job.failure == Failure.HOST_UNREACHABLE):
            continue
        words = f"{registry.label(job.kind)} failed: {job.error}"
        yield Need("bad", job.where or f"Job {job.pk}", words, reverse("job", args=[job.pk]), job.finished_at)


def _of_host(glance: Glance, late: Trouble | None) -> Iterator[Need]:
    host = glance.host
    link = reverse("host", args=[host.name])
    if glance.state == "paused":
        yield Need("paused", host.name, f"Paused: {glance.line.rstrip('.')}.", link, host.paused_at)
        return
    if glance.state == "down":
        yield Need("bad", host.name, f"No contact: {host.last_error}", link, host.last_error_at)
    if late:
        yield Need("bad", host.name, f"{late.words}.", link, host.last_backup_at)
    for sentence in glance.warnings:
        if not (late and sentence == NEVER):
            yield Need("warn", host.name, sentence, link)


def _damages() -> Iterator[Need]:
    for trouble in standing.damaged():
        sentence = trouble.words.removeprefix(f"{trouble.host}: ")
        yield Need("bad", trouble.host, sentence, reverse("host", args=[trouble.host]))


def _skipping(now: datetime) -> Iterator[Need]:
    link = reverse("admin:django_celery_beat_periodictask_changelist")
    for trouble in standing.skipping(now):
        yield Need("warn", "Schedules", f"{trouble.words}.", link)
