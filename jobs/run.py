"""What a family holds while it works: the live side of a claimed job."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from jobs.models import Job, JobEvent, Status
from jobs.patience import patiently
from jobs.registry import StopWork
from jobs.transitions import LostClaim
from jobs.words import one_line

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterator

    from jobs.logs import JobLog
    from jobs.registry import Params, Session

logger = logging.getLogger(__name__)
LOST_CLAIM = "lost_claim"


@dataclass(slots=True)
class Progress:
    """The newest progress, not yet written."""

    done: int = 0
    total: int | None = None
    label: str = ""
    fresh: bool = False


class LiveRun:
    """The `Run` of one attempt. The work calls it from its own thread; `stop` comes from the thread beside it."""

    def __init__(self, job: Job, attempt: uuid.UUID, log: JobLog, session: Session | None) -> None:
        self.params: Params = job.params
        self.job_id = job.pk
        self.host_id: int | None = job.host_id
        self.attempt_id = attempt
        self.attempt = str(attempt)
        self.job_log = log
        self.newest = Progress()
        self._session = session
        self._reason = ""
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._shielded = False
        self.leave = False  # the process itself was told to exit while the work ran
        self._actions: list[Callable[[], None]] = []

    def shell(self) -> Any:
        """The connection opened at pick-up."""
        if self._session is None:
            raise RuntimeError("This kind of work has no host.")
        return self._session

    def log(self, line: str) -> None:
        """Add a line to the job's log."""
        self.job_log.write(line)

    def progress(self, done: int, total: int | None = None, label: str = "") -> None:
        """Remember how far the work is; the thread beside it writes it at most once a second."""
        self.newest = Progress(done, total, one_line(label)[:200], fresh=True)

    def step(self, name: str) -> None:
        """Begin a named step by a fenced write. Raises LostClaim, and StopWork when the work must end."""
        self._check_claim()
        self.check_cancel()
        if not patiently(lambda: self._write_step(one_line(name)[:100]), self.check_cancel):
            self.stop(LOST_CLAIM)
            self._check_claim()
        self.log(f"== {name}")

    def check_cancel(self) -> None:
        """Raise StopWork, or LostClaim, when the work must end; within `shielded` neither."""
        if self._shielded:
            return
        self._check_claim()
        if self._reason:
            raise StopWork(self._reason)

    def _check_claim(self) -> None:
        if self._reason == LOST_CLAIM:
            raise LostClaim(f"Job {self.job_id} is no longer ours.")

    def on_stop(self, action: Callable[[], None]) -> None:
        """Call `action` once, from another thread, when the work must end."""
        with self._lock:
            if not self._reason:
                self._actions.append(action)
                return
        action()  # the stop came first

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Let a clean-up that must happen (a hook that starts a container again) finish although a stop was asked.

        Also when the claim was lost: only `step`, which writes, then still raises LostClaim.
        """
        before, self._shielded = self._shielded, True
        try:
            yield
        finally:
            self._shielded = before

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than until the work must end. Raises StopWork."""
        self._stopped.wait(seconds)
        self.check_cancel()

    @property
    def cleans_up(self) -> bool:
        """True within `shielded`."""
        return self._shielded

    @property
    def reason(self) -> str:
        """Why the work must end; "" while it may go on."""
        return self._reason

    def stop(self, reason: str) -> None:
        """Ask the work to end; the first reason stays, but a lost claim outranks all."""
        with self._lock:
            if self._reason and reason != LOST_CLAIM:
                return
            self._reason = reason
            actions, self._actions = self._actions, []
        self._stopped.set()
        for action in actions:
            try:
                action()
            except Exception:  # one that fails must not keep the others, or the thread that calls, from going on
                logger.exception("job %s: on stop", self.job_id)

    def write_progress(self) -> None:
        """Store the newest progress; a fenced write that finds nothing stops the work."""
        newest, self.newest = self.newest, Progress()
        if newest.fresh and not self._fenced(
            progress_done=newest.done, progress_total=newest.total, progress_label=newest.label
        ):
            self.stop(LOST_CLAIM)

    def _write_step(self, name: str) -> bool:
        with transaction.atomic():
            ours = self._fenced(step=name)
            if ours:
                JobEvent.objects.create(job_id=self.job_id, name="step", text=name, attempt=self.attempt_id)
        return ours

    def _fenced(self, **fields: Any) -> bool:
        mine = Job.objects.filter(pk=self.job_id, status=Status.RUNNING, attempt=self.attempt_id)
        return bool(mine.update(**fields))


def now_iso() -> str:
    """This moment in UTC, for results."""
    return timezone.now().isoformat(timespec="seconds")
