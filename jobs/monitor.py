"""The threads that keep the engine honest: one only beats, one watches the workers, one sweeps.

They are no Celery tasks: full slots never stop them.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import F

from jobs.models import WorkerNode
from jobs.sweeper import PERIOD

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.node import Me
    from jobs.sweeper import Sweeper

logger = logging.getLogger(__name__)
STATEMENT_MS = 5000


class Loop(threading.Thread):
    """A daemon thread that calls `turn` every `period` seconds over its own connection and outlives a lost database.

    `durable=False`: what the turn writes may be lost in a power cut, so SQLite need not sync it to the disk.
    """

    def __init__(
        self,
        name: str,
        period: float,
        turn: Callable[[], None],
        lost: Callable[[], None] = lambda: None,
        *,
        durable: bool = True,
    ) -> None:
        super().__init__(daemon=True, name=name)
        self.durable = durable
        self.period, self.turn, self.lost = period, turn, lost
        self._end = threading.Event()
        self._limited = False

    def run(self) -> None:
        """Until `finish`; the pause is counted from the end of a turn."""
        while not self._end.is_set():
            try:
                self._prepare_connection()
                self.turn()
            except DatabaseError as error:
                logger.warning("%s: the database is away: %s", self.name, error)
                self._forget_connection()
            except Exception:  # a fault of ours says nothing about the contact with the database
                logger.exception("%s", self.name)
            self._end.wait(self.period)
        connection.close()

    def finish(self) -> None:
        """End after the current turn."""
        self._end.set()

    def _forget_connection(self) -> None:
        self.lost()
        self._limited = False
        with suppress(Exception):  # a broken connection may refuse even to be closed
            connection.close()

    def _prepare_connection(self) -> None:
        """No statement of a monitor may hang on a database that froze; no heartbeat need wear out an SD card."""
        if self._limited:
            return
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(f"SET statement_timeout = {STATEMENT_MS}")
            elif not self.durable:
                cursor.execute("PRAGMA synchronous = NORMAL")
        self._limited = True


class Heart:
    """Moves this boot's counter; a boot that finds itself marked dead by others calls `buried`."""

    def __init__(self, me: Me, buried: Callable[[], None]) -> None:
        self.me, self.buried = me, buried
        self.last: float | None = None  # the monotonic second of the last beat that was written
        self.at_rest = False

    def beat(self) -> None:
        """One beat: a single small UPDATE."""
        alive = WorkerNode.objects.filter(pk=self.me.boot, dead_at__isnull=True)
        if alive.update(beats=F("beats") + 1):
            self.last = time.monotonic()
        elif not self.at_rest:
            self.buried()

    def writes(self) -> bool:
        """True while beats reach the database: see `is_fresh`."""
        return is_fresh(self.last)

    def rest(self) -> None:
        """This boot is about to mark itself dead: a beat that finds that is no burial."""
        self.at_rest = True


def is_fresh(last: float | None) -> bool:
    """True when a write of the monotonic second `last` proves that others can write too.

    Younger than half the silence: together with a beat, that is less than the silence after which a worker is dead.
    """
    return last is not None and time.monotonic() - last < settings.PIHERDER_SILENCE_SEC / 2


class Monitor:
    """Heart and sweeper of one process; beat has no heart."""

    def __init__(self, sweeper: Sweeper, heart: Heart | None = None) -> None:
        self.loops = [Loop("watch", PERIOD, sweeper.watch, sweeper.lost_contact), Loop("sweeper", PERIOD, sweeper.tend)]
        if heart:
            self.loops.append(Loop("heart", settings.PIHERDER_BEAT_SEC, heart.beat, durable=False))

    def start(self) -> None:
        """Start the threads."""
        for loop in self.loops:
            loop.start()

    def finish(self) -> None:
        """End the threads."""
        for loop in self.loops:
            loop.finish()


def wait_for(answer: Callable[[], bool], seconds: float, step: float = 0.2) -> bool:
    """True as soon as `answer` is, False after `seconds`."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if answer():
            return True
        time.sleep(step)
    return False
