"""Rules of waiting as small functions: when a hint counts as lost, when a wait is due, how long it has lasted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from jobs.models import EngineSettings, Job, Status

if TYPE_CHECKING:
    from datetime import datetime

HINT_AGE = timedelta(seconds=30)  # a hint younger than this may still be on its way
LONGEST_HINT_AGE = timedelta(minutes=30)
JUMP = timedelta(minutes=2)  # a wall clock that moved by less is taken as it is
NO_JUMP = timedelta(0)
# A probe that is so late was missed by all: the clock jumped before this process began to look, or nobody looked.
UNWATCHED = timedelta(minutes=10)
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
    later = Job.objects.filter(queue=job.queue, published_at__gt=job.published_at)
    # A row that was put back and published again keeps the moment of its former pick-up.
    return depth == 0 or later.filter(picked_up_at__gt=F("published_at")).exists()


def host_wait() -> timedelta:
    """The longest wait for a host, read anew at each probe; the environment locks the field of the settings page."""
    locked = settings.PIHERDER_EXCLUSIVE_HOST_WAIT_SEC
    return timedelta(seconds=locked if locked is not None else EngineSettings.load().host_wait_sec)


def waited(job: Job) -> timedelta:
    """How long a row has waited."""
    return timezone.now() - job.waiting_since if job.waiting_since else timedelta(0)


def is_due(when: datetime, now: datetime) -> bool:
    """True when `when` has come, or lies so far ahead that the clock must have been set back."""
    return when <= now or when - now > max(JUMP, timedelta(seconds=4 * settings.PIHERDER_PROBE_SEC))


@dataclass(slots=True)
class Clocks:
    """Tells a wall clock that jumped from time that passed, by the difference between the two clocks of a process."""

    ahead: float | None = None  # seconds that the wall clock was ahead of the monotonic one at the last look

    def jump(self) -> timedelta:
        """By how much the wall clock jumped since the last call; zero when it did not, by more than `JUMP`."""
        found = self.jumped_since()
        self.ahead = _ahead()
        return found

    def jumped_since(self) -> timedelta:
        """The same without a new start: by how much the clock jumped since the last `jump`."""
        jump = timedelta(seconds=0 if self.ahead is None else _ahead() - self.ahead)
        return jump if abs(jump) > JUMP else NO_JUMP


def _ahead() -> float:
    return timezone.now().timestamp() - time.monotonic()


def stand_still(job: Job, pause: timedelta) -> None:
    """Put a due probe off by `pause` without counting the time: the job waits for a host that is paused."""
    now = timezone.now()
    planned = job.next_probe_at or now
    if not is_due(planned, now):
        return
    fields: dict[str, datetime] = {"next_probe_at": now + pause}
    if job.waiting_since:
        fields["waiting_since"] = min(job.waiting_since + (now + pause - planned), now)
    row = Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True, next_probe_at=job.next_probe_at)
    row.update(**fields)


def take_probe(job: Job, pause: timedelta, jump: timedelta = NO_JUMP) -> bool:
    """Win the right to probe a due row by moving its next probe; a clock's `jump` moves the wait's start along.

    The row itself has to be off by the jump: where another sweeper has moved it, it is not. A sweep that only took
    long is no jump and stretches no wait.
    """
    now = timezone.now()
    planned = job.next_probe_at or now
    if not is_due(planned, now):
        return False
    fields: dict[str, datetime] = {"next_probe_at": now + pause}
    drift = now - planned
    if not jump and abs(drift) > UNWATCHED:
        jump = drift
    if job.waiting_since and jump and drift / jump > 1 / 2:
        fields["waiting_since"] = job.waiting_since + jump
    row = Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True, next_probe_at=job.next_probe_at)
    won = bool(row.update(**fields))
    if won:
        job.waiting_since = fields.get("waiting_since", job.waiting_since)
    return won
