"""Beat: Celery's scheduler for chores, and beside it our own threads for schedules of jobs, the lease and the sweeps.

Any number of beats may run: one leads by a lease in the database, the others stand by. Schedules of jobs are fired
here, not by messages, so that neither full slots nor a broker that is away delays or loses one.
"""

from __future__ import annotations

import logging
import platform
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db.models import F, QuerySet
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from jobs import owed, schedules
from jobs.models import BeatLease
from jobs.monitor import Loop, Monitor, is_fresh
from jobs.sweeper import Sweeper

logger = logging.getLogger(__name__)
RENEW = 10.0  # seconds between two renewals, at most
VALID = 22.0  # seconds that the leader believes in a lease it could not renew
SILENT = 30.0  # seconds of silence, on the stand-by's own clock, after which it takes over
MAKE_UP = 60.0  # seconds between two looks for runs that are owed


@dataclass(slots=True)
class Lease:
    """The right to fire schedules: renewed by its holder, taken over by compare-and-set when its counter rests."""

    me: uuid.UUID = field(default_factory=uuid.uuid4)
    name: str = field(default_factory=platform.node)
    valid_until: float = 0.0
    seen: tuple[int, float] = (-1, 0.0)
    resumed: bool = False
    last: float | None = None  # the monotonic second of the last turn that the database took

    def leads(self) -> bool:
        """True while this process may fire; a process that was frozen finds its lease outdated."""
        return time.monotonic() < self.valid_until

    def turn(self) -> None:
        """Renew our lease, or watch the holder's and take it over when it went silent."""
        self._turn()
        self.last = time.monotonic()

    def writes(self) -> bool:
        """True while turns reach the database; each begins with an UPDATE, which waits for SQLite's lock."""
        return is_fresh(self.last)

    def _turn(self) -> None:
        began = time.monotonic()
        now = {"counter": F("counter") + 1, "renewed_at": timezone.now()}
        if BeatLease.objects.filter(pk=1, holder=self.me).update(**now):
            self.valid_until = began + VALID
            return
        self.valid_until = 0.0
        row, _ = BeatLease.objects.get_or_create(pk=1)
        counter, since = self.seen
        if row.holder is not None and counter != row.counter:
            self.seen = (row.counter, began)
        elif row.holder is None or began - since >= SILENT:
            taken = BeatLease.objects.filter(pk=1, counter=row.counter)
            if taken.update(holder=self.me, name=self.name, **now):
                logger.info("this beat leads now")
                self.valid_until = began + VALID

    def give_up(self) -> None:
        """Let another beat lead at once."""
        self.valid_until = 0.0
        BeatLease.objects.filter(pk=1, holder=self.me).update(holder=None, name="")

    def forget(self) -> None:
        """The database did not answer: the holder's silence counts anew."""
        self.seen = (-1, 0.0)


def renewal() -> float:
    """Seconds between two turns of the lease: often enough to show that this process can write."""
    return min(RENEW, 0.4 * settings.PIHERDER_SILENCE_SEC)


class Firing:
    """The thread that fires what is due while this beat leads."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._next_make_up = 0.0

    def turn(self) -> None:
        """Fire what is due; once a minute, what is owed."""
        if not self.lease.leads():
            self.lease.resumed = False
            return
        if not self.lease.resumed:
            schedules.resume_fires()
            self.lease.resumed = True
        schedules.run_due()
        if time.monotonic() >= self._next_make_up:
            self._next_make_up = time.monotonic() + MAKE_UP
            owed.make_up()


class LeaderScheduler(DatabaseScheduler):  # type: ignore[misc]  # django-celery-beat has no types
    """Celery's scheduler for chores; ticks only while this beat leads."""

    def setup_schedule(self) -> None:
        """Start the threads with the first schedule."""
        super().setup_schedule()
        self.lease = Lease()
        firing = Firing(self.lease)
        self.loops = [
            Loop("lease", renewal(), self.lease.turn, self.lease.forget, durable=False),
            Loop("schedules", 2.0, firing.turn),
            *Monitor(Sweeper(writes=self.lease.writes)).loops,
        ]
        for loop in self.loops:
            loop.start()

    def enabled_models_qs(self) -> QuerySet[PeriodicTask]:
        """Chores only, whatever their hour.

        The library leaves out numeric hours that are more than 2 h away, and with them missed runs.
        """
        chores: QuerySet[PeriodicTask] = PeriodicTask.objects.enabled().exclude(task=schedules.SCHEDULE)
        return chores

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Seconds until the next tick; a stand-by only waits."""
        return float(super().tick(*args, **kwargs)) if self.lease.leads() else 1.0

    def close(self) -> None:
        """Give the lease back, so that a stand-by leads at once."""
        for loop in self.loops:
            loop.finish()
        self.lease.give_up()
        super().close()
