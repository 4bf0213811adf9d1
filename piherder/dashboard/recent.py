"""The jobs that the page shows, with the lanes they hold: one query, however many jobs there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import F, Q, Subquery
from django.utils import timezone

from jobs import registry
from jobs.models import ACTIVE, Job, JobEvent, Status

if TYPE_CHECKING:
    from datetime import datetime

DAY = timedelta(days=1)
MOST = 2000  # the newest jobs are looked at, so that a long history costs nothing

Place = tuple[int | None, str]  # a host's id, None for work without a host, and a lane


@dataclass(slots=True)
class Recent:
    """Active jobs, oldest first; ended ones, newest first; who holds what; when it was asked."""

    now: datetime
    active: list[Job] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    holders: dict[Place, Job] = field(default_factory=dict)
    event: int = 0  # the newest transition of any job

    def of_the_day(self) -> list[Job]:
        """What was at work within the last 24 h, oldest first; routine looks that went well are left out."""
        ended = [job for job in reversed(self.ended) if (job.finished_at or self.now) > self.now - DAY]
        return [job for job in (*ended, *self.active) if job.started_at and not is_routine(job)]

    def failed(self) -> list[Job]:
        """Failures that no later job of the same kind and host has mended, newest first."""
        settled: set[tuple[int | None, str]] = set()
        found = []
        for job in self.ended:
            if job.status == Status.CANCELLED or (job.host_id, job.kind) in settled:
                continue
            settled.add((job.host_id, job.kind))
            if job.status == Status.FAILED:
                found.append(job)
        return found


def recent() -> Recent:
    """Look at the jobs."""
    newest = Subquery(Job.objects.order_by("-pk").values("pk")[:1])
    rows = (
        Job.objects.filter(Q(status__in=ACTIVE) | Q(pk__gt=newest - MOST))
        .select_related("host")
        .defer("result", "params")
        .annotate(lane=F("lanes__name"), event=Subquery(JobEvent.objects.order_by("-pk").values("pk")[:1]))
        .order_by("-pk")
    )
    found = Recent(timezone.now())
    seen: dict[int, Job] = {}
    for row in rows:
        job = seen.setdefault(row.pk, row)
        if job is row:
            (found.active if job.is_active else found.ended).append(job)
        found.event = vars(row)["event"] or 0
        if lane := vars(row)["lane"]:
            found.holders[job.host_id, lane] = job
    found.active.reverse()
    return found


def is_routine(job: Job) -> bool:
    """A look that is taken many times a day, keeps no log and went well."""
    family = registry.find(job.kind)
    return family is not None and job.status == Status.SUCCEEDED and not family.keep_log
