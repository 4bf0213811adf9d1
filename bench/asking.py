"""Requests that a case makes, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import F

from bench.programs import PATIENCE, until
from jobs import services
from jobs.models import ACTIVE, Door, Job, Status
from jobs.services import Asker

if TYPE_CHECKING:
    from collections.abc import Sequence

ASKER = Asker(Door.COMMAND, name="bench")


class NotGood(Exception):
    """A job of a case did not succeed: what was measured would be worth nothing."""


def ask(kind: str, host: int | None = None, **params: Any) -> int:
    """Request a job; its id."""
    return services.request_job(kind, host, params, asker=ASKER).job.pk


def ended(jobs: Sequence[int], seconds: float = PATIENCE, pause: float = 0.01) -> None:
    """Wait until all have ended. Raises TooSlow, and NotGood when one did not succeed."""
    rows = Job.objects.filter(pk__in=jobs)
    until(lambda: not rows.filter(status__in=ACTIVE).exists(), f"{len(jobs)} jobs end", seconds, pause)
    for job in rows.exclude(status=Status.SUCCEEDED):
        raise NotGood(f"Job {job.pk} ({job.kind}) did not succeed: {job.error or job.state_words}")


def took(job: int) -> float:
    """Seconds from the request of an ended job to its end, by its row: however seldom it was looked for."""
    span = F("finished_at") - F("created_at")
    seconds: float = Job.objects.annotate(span=span).values_list("span", flat=True).get(pk=job).total_seconds()
    return seconds


def cancel_pending(jobs: Sequence[int]) -> None:
    """Cancel those that have not ended, and wait for it."""
    for job in Job.objects.filter(pk__in=jobs, status__in=ACTIVE):
        services.request_cancel(job, asker=ASKER)
    until(lambda: not Job.objects.filter(pk__in=jobs, status__in=ACTIVE).exists(), "jobs are cancelled")
