"""A worker whose heart beats although it takes no messages any more, as after a broken connection to the broker."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs import tasks
from jobs.models import EngineSettings, WorkerNode

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)
PERIOD = 10.0  # seconds between two looks
LONGEST = 60.0  # seconds for which messages may lie before an idle worker that may take them


@dataclass(frozen=True, slots=True)
class Look:
    """What a worker saw of itself at the monotonic second `at`."""

    at: float
    taken: int  # messages that it has taken since it started
    carries: int  # messages that it holds now, running or not
    waiting: int | None  # messages in its queues; None when the broker did not say
    may_start: bool  # neither draining nor held


def idle_since(before: float | None, last: Look | None, now: Look) -> float | None:
    """Since when the worker leaves messages lying that it should take; None when it does not.

    `before` is the answer at the `last` look.
    """
    if now.carries or not now.waiting or not now.may_start:
        return None
    if last is None or before is None or last.taken != now.taken:
        return now.at
    return before


class Ears:
    """Looks, in the worker's main process, whether it still hears; calls `deaf` once it does not for `LONGEST` s."""

    def __init__(
        self,
        boot: uuid.UUID,
        queues: Sequence[str],
        taken: Callable[[], int],
        carries: Callable[[], int],
        deaf: Callable[[], None],
    ) -> None:
        self.boot, self.queues, self.taken, self.carries, self.deaf = boot, queues, taken, carries, deaf
        self.last: Look | None = None
        self.since: float | None = None

    def turn(self, now: float | None = None) -> None:
        """One look at the monotonic second `now`."""
        look = self._look(time.monotonic() if now is None else now)
        self.since, self.last = idle_since(self.since, self.last, look), look
        if self.since is None or look.at - self.since < LONGEST:
            return
        if self.carries() or self.taken() != look.taken:  # a message came in while we looked
            return
        logger.critical("this worker took none of %s messages for %d s: exiting", look.waiting, look.at - self.since)
        self.deaf()

    def forget(self) -> None:
        """The database did not answer: begin anew."""
        self.last = self.since = None

    def _look(self, at: float) -> Look:
        taken, carries = self.taken(), self.carries()
        waiting = None if carries else self._waiting()
        return Look(at, taken, carries, waiting, bool(waiting) and self._may_start())

    def _waiting(self) -> int | None:
        depths = tasks.queue_depths(self.queues).values()
        known = [depth for depth in depths if depth is not None]
        return sum(known) if len(known) == len(depths) else None

    def _may_start(self) -> bool:
        stays = WorkerNode.objects.filter(pk=self.boot, drain_at__isnull=True, dead_at__isnull=True)
        return stays.exists() and not EngineSettings.load().held
