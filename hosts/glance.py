"""A host at a glance: its state in words, what is kept of it, what a person should look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Exists, Max, OuterRef, Prefetch, Q

from hosts.facts import words
from hosts.facts.model import Facts
from hosts.models import GenerationStatus, Host, Source
from jobs.models import ACTIVE, Job

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.db.models import QuerySet

    from hosts.facts.model import Disk

FULL, NEARLY = 90, 80  # percent of a disk
NEVER = "This host was never backed up."


@dataclass(frozen=True, slots=True)
class DiskBar:
    """How full one disk is; `percent` is None when unknown, `level` one of ok, warn, bad."""

    mount: str
    percent: int | None
    words: str

    @property
    def level(self) -> str:
        """The colour's name; the words stand beside it."""
        percent = self.percent or 0
        return "bad" if percent > FULL else "warn" if percent > NEARLY else "ok"


@dataclass(frozen=True, slots=True)
class Glance:
    """One host as the list and its page show it."""

    host: Host
    facts: Facts | None
    read_at: datetime | None
    proven_at: datetime | None
    active: tuple[Job, ...]
    has_sources: bool

    @property
    def state(self) -> str:
        """One of paused, down, up, unknown."""
        if self.host.paused():
            return "paused"
        if self.host.last_error_at is not None:
            return "down"
        return "up" if self.host.last_seen else "unknown"

    @property
    def state_words(self) -> str:
        """The state as a person reads it."""
        names = {"paused": "Paused", "down": "No contact", "up": "Up", "unknown": "Never seen"}
        return names[self.state]

    @property
    def line(self) -> str:
        """What the host is, or why there is no contact."""
        if self.state == "paused":
            return self.host.pause_reason or "no reason was given"
        if self.state == "down":
            return self.host.last_error
        return words.one_line(self.facts) if self.facts else "nothing is known yet"

    @property
    def warnings(self) -> list[str]:
        """What should be looked at, one sentence each."""
        found = words.warnings(self.facts) if self.facts else []
        if not self.has_sources:
            found.append("Nothing of this host is backed up: it has no sources.")
        elif self.host.last_backup_at is None:
            found.append(NEVER)
        elif self.proven_at is None:
            found.append("No backup of this host was proven restorable yet.")
        return found

    @property
    def disks(self) -> list[DiskBar]:
        """Every disk that is known, fullest first."""
        disks = (self.facts.disks if self.facts else None) or ()
        return sorted(map(bar, disks), key=lambda disk: -(disk.percent or 0))

    @property
    def fullest(self) -> DiskBar | None:
        """The disk nearest to its end."""
        return next(iter(self.disks), None)


def bar(disk: Disk) -> DiskBar:
    """A disk in words: "12.3 of 58.2 GiB"."""
    if disk.bytes_used is None or disk.bytes_total is None:
        return DiskBar(disk.mount, disk.used_percent, "size unknown")
    gib = 2**30
    return DiskBar(disk.mount, disk.used_percent, f"{disk.bytes_used / gib:.1f} of {disk.bytes_total / gib:.1f} GiB")


def glances(**only: object) -> list[Glance]:
    """Every host of the herd that fits the look-ups `only`, by name; two queries whatever their number."""
    active = Job.objects.filter(status__in=ACTIVE).defer("result", "params").order_by("pk")
    hosts = _hosts(**only).prefetch_related(Prefetch("jobs", active, to_attr="active_jobs"))
    return [_glance(host, vars(host)["active_jobs"]) for host in hosts]


def glances_with(active: Iterable[Job]) -> list[Glance]:
    """Every host of the herd, by name, for who has asked for the active jobs already; one query."""
    of_host: dict[int | None, list[Job]] = {}
    for job in active:
        of_host.setdefault(job.host_id, []).append(job)
    return [_glance(host, of_host.get(host.pk, ())) for host in _hosts()]


def _hosts(**only: object) -> QuerySet[Host]:
    good = Q(sources__generations__status=GenerationStatus.GOOD)
    sources = Source.objects.filter(host=OuterRef("pk"), enabled=True)
    return (
        Host.herd.filter(**only)
        .select_related("facts", "credential", "jump", "backup_root")
        .annotate(proven_at=Max("sources__generations__verified_at", filter=good), has_sources=Exists(sources))
        .order_by("name")  # the model's own order does not hold beside an aggregate
    )


def _glance(host: Host, active: Iterable[Job]) -> Glance:
    row, known = getattr(host, "facts", None), vars(host)
    return Glance(
        host,
        Facts.from_json(row.data) if row else None,
        row.read_at if row else None,
        known["proven_at"],
        tuple(active),
        known["has_sources"],
    )
