"""Rules of waiting as small functions: when a hint counts as lost, when a wait is due, how long it has lasted."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import timezone

from jobs.models import EngineSettings, Job, Status

if TYPE_CHECKING:
    from datetime import datetime

HINT_AGE = timedelta(seconds=30)  # a hint younger than this may still be on its way
LONGEST_HINT_AGE = timedelta(minutes=30)
DOUBLINGS = 10  # more would not change the pause, and a row that waits for days would overflow it


def hint_is_gone(job: Job, depth: int | None, now: datetime) -> bool:
    """True when the message of a pending row can no longer arrive; `depth` None (broker away) says nothing is known."""
    if depth is None:
        return False
    if job.published_at is None:
        return True
    doublings = max(0, min(job.publishes, DOUBLINGS) - 1)
    age = abs(now - job.published_at)  # a clock that was set back must not hide a row
    if age < min(HINT_AGE * 2**doublings, LONGEST_HINT_AGE):
        return False
    later = Job.objects.filter(queue=job.queue, published_at__gt=job.published_at, picked_up_at__isnull=False)
    return depth == 0 or later.exists()


def host_wait() -> timedelta:
    """The longest wait for a host, read anew at each probe; the environment locks the field of the settings page."""
    locked = settings.PIHERDER_EXCLUSIVE_HOST_WAIT_SEC
    return timedelta(seconds=locked if locked is not None else EngineSettings.load().host_wait_sec)


def waited(job: Job) -> timedelta:
    """How long a row has waited."""
    return timezone.now() - job.waiting_since if job.waiting_since else timedelta(0)


def is_due(when: datetime, now: datetime) -> bool:
    """True when `when` has come, or lies so far ahead that the clock must have been set back."""
    return when <= now or when - now > timedelta(seconds=4 * settings.PIHERDER_PROBE_SEC)


def take_probe(job: Job, pause: timedelta) -> bool:
    """Win the right to probe a due row by moving its next probe; a clock that jumped moves the wait's start along."""
    now = timezone.now()
    planned = job.next_probe_at or now
    if not is_due(planned, now):
        return False
    fields: dict[str, datetime] = {"next_probe_at": now + pause}
    drift = now - planned
    if job.waiting_since and abs(drift) > 4 * pause:
        fields["waiting_since"] = job.waiting_since + drift
    row = Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True, next_probe_at=job.next_probe_at)
    won = bool(row.update(**fields))
    if won:
        job.waiting_since = fields.get("waiting_since", job.waiting_since)
    return won
