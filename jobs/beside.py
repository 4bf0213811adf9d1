"""The thread beside the work: renews the mutex, reads the cancel flag, keeps the time limit, writes log and progress.

It never decides how the job ends; it only asks the work to stop and says why.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError, connection

from jobs import logs
from jobs.models import Failure, Job, Status, WorkerNode
from jobs.mutex import Kept
from jobs.run import LOST_CLAIM

if TYPE_CHECKING:
    import uuid
    from datetime import timedelta

    from jobs.mutex import HostMutex
    from jobs.run import LiveRun

logger = logging.getLogger(__name__)
TICK = 1.0  # seconds between two writes of log and progress
LOOK = 2.0  # seconds between two looks at the row
# Seconds that work may go on after it was asked to end; then its process is killed. Writing the manifest of millions
# of files or syncing a slow disk cannot be broken off. Clean-ups have limits of their own: theirs is the last resort.
PATIENCE = 900.0
CLEAN_UP_PATIENCE = 3600.0
CANCEL = "cancel"


class Beside(threading.Thread):
    """One thread per running job, with a database connection of its own; `now` is the monotonic second."""

    def __init__(self, run: LiveRun, boot: uuid.UUID, limit: timedelta, mutex: HostMutex | None, now: float) -> None:
        super().__init__(daemon=True, name=f"beside-job-{run.job_id}")
        self.live, self.boot, self.mutex = run, boot, mutex
        self.deadline = now + limit.total_seconds()
        self._end = threading.Event()
        self._next_look = 0.0
        self._next_renewal = now + self._renew_every
        self._drain_since: float | None = None
        self._stop_seen: float | None = None  # the last tick after the stop
        self._overdue = {False: 0.0, True: 0.0}  # seconds since the stop, without and with the shield of a clean-up

    def run(self) -> None:
        """Tick until the work has ended; neither a database that is away nor a fault in one tick ends the guard."""
        while not self._end.wait(TICK):
            try:
                self.tick(time.monotonic())
            except DatabaseError as error:
                logger.warning("job %s: database: %s", self.live.job_id, error)
                with suppress(DatabaseError):
                    connection.close()
            except Exception:
                logger.exception("job %s: beside it", self.live.job_id)
        connection.close()

    def finish(self) -> None:
        """End the thread; what it had not written yet is written by `runner`."""
        self._end.set()
        self.join(timeout=30)

    def tick(self, now: float) -> None:
        """One round at the monotonic second `now`."""
        if now >= self.deadline:
            self.live.stop(Failure.TIME_LIMIT)
        if self.mutex and now >= self._next_renewal:
            self._next_renewal = now + self._renew_every
            if self.mutex.renew() is Kept.LOST:
                self.live.stop(Failure.LOCK_LOST)
        self._lose_patience(now)
        if now >= self._next_look:
            self._next_look = now + LOOK
            self._look(now)
        self.live.write_progress()
        logs.store(self.live.job_id, self.live.attempt_id, self.live.job_log.take())

    @property
    def _renew_every(self) -> float:
        """Seconds: a third of the life of the key, so that two renewals may fail."""
        return self.mutex.ttl_ms / 3000 if self.mutex else 0.0

    def _look(self, now: float) -> None:
        row = Job.objects.filter(pk=self.live.job_id).values("status", "attempt", "cancel_requested_at").first()
        if row is None or row["status"] != Status.RUNNING or row["attempt"] != self.live.attempt_id:
            self.live.stop(LOST_CLAIM)
        elif row["cancel_requested_at"]:
            self.live.stop(CANCEL)
        self._drain(now)

    def _drain(self, now: float) -> None:
        node = WorkerNode.objects.filter(pk=self.boot).values("drain_at").first()
        if node is None or node["drain_at"] is None:
            return
        self._drain_since = self._drain_since or now
        if now - self._drain_since >= settings.PIHERDER_DRAIN_GRACE_SEC:
            self.live.stop(Failure.WORKER_STOPPED)

    def _lose_patience(self, now: float) -> None:
        """Work that ignores its end is killed with its process; the parent then reports the loss."""
        if not self.live.reason:
            return
        self._overdue[self.live.cleans_up] += now - (now if self._stop_seen is None else self._stop_seen)
        self._stop_seen = now
        if self._overdue[False] > PATIENCE or self._overdue[True] > CLEAN_UP_PATIENCE:
            logger.error("job %s did not end %d s after it was asked to: killed", self.live.job_id, self._waited())
            os.kill(os.getpid(), signal.SIGKILL)

    def _waited(self) -> float:
        return sum(self._overdue.values())
