"""Following jobs to their end from a terminal or a script: the rows are looked at, nothing is asked of the workers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from django.conf import settings
from django.db import connection
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from jobs.models import Job, JobLine, Status, WorkerNode
from jobs.patience import patiently
from jobs.spans import ago
from jobs.terminal import harmless

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from rich.console import Console

POLL = 0.3  # seconds between two looks
LINES = 1000  # lines taken at one look


class Screen(Protocol):
    """Where a follower shows what it sees."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def line(self, job: Job, text: str) -> None:
        """A line of the job's log."""

    def state(self, job: Job) -> None:
        """The job as it is now; called at every look."""

    def note(self, text: str) -> None:
        """A sentence for the person."""


def title(job: Job) -> str:
    """ "job 5 (backup on pi1)"."""
    return f"job {job.pk} ({job.kind}{f' on {job.where}' if job.where else ''})"


def waiting_words(job: Job) -> str:
    """What an active job waits for or does, in words: "waiting on host, next look in 20 s"."""
    if job.status == Status.RUNNING:
        return f"{job.state_words.lower()}{f' on {job.node}' if job.node else ''}"
    reason = waiting_reason(job)
    return f"{job.state_words.lower()}{f' ({reason})' if reason else ''}"


def waiting_reason(job: Job) -> str:
    """Why a pending job waits and when it is looked at next, as far as is known."""
    if job.status != Status.PENDING:
        return ""
    probe = f"next look {ago(job.next_probe_at)}" if job.next_probe_at else ""
    return ", ".join(part for part in (job.waiting_why.rstrip("."), probe) if part)


class QuietScreen:
    """Shows sentences only; `write` gets them."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def line(self, job: Job, text: str) -> None:
        """Nothing."""

    def state(self, job: Job) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Pass it on."""
        self.write(text)


class PlainScreen(QuietScreen):
    """Plain lines, for logs and pipes: each log line, and each change of state once."""

    def __init__(
        self, write: Callable[[str], object], note: Callable[[str], object] | None = None, *, several: bool = False
    ) -> None:
        super().__init__(note or write)
        self.out, self.several = write, several
        self._told: dict[int, str] = {}

    def line(self, job: Job, text: str) -> None:
        """The line, named when several jobs are followed."""
        self.out(f"{job.where or job.pk} | {text}" if self.several else text)

    def state(self, job: Job) -> None:
        """One line when the state is another than before; the end is left to the caller."""
        key = f"{job.status} {job.waiting_on} {job.waiting_why} {job.node} {job.step} {bool(job.cancel_requested_at)}"
        if job.is_active and self._told.get(job.pk) != key:
            self._told[job.pk] = key
            step = f", step {job.step}" if job.step and job.status == Status.RUNNING else ""
            self.out(f"{title(job)}: {waiting_words(job)}{step}")


class LiveScreen:
    """A terminal: the log scrolls above one progress bar per job."""

    def __init__(self, console: Console, *, several: bool = False) -> None:
        self.several = several
        self.progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]:>5}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[label]}", style="dim", markup=False),
            console=console,
            transient=True,
        )
        self._bars: dict[int, TaskID] = {}

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def line(self, job: Job, text: str) -> None:
        """Above the bars."""
        words = Text(f"{job.where or job.pk} ", "bold") if self.several else Text()
        self.progress.console.print(words + Text(harmless(text)), soft_wrap=True)

    def state(self, job: Job) -> None:
        """Move the job's bar; without a total it pulses."""
        bar = self._bars.get(job.pk)
        if bar is None:
            bar = self._bars[job.pk] = self.progress.add_task(title(job), total=None, amount="", label="")
        percent = job.percent
        label = (job.progress_label or job.step) if job.status == Status.RUNNING else waiting_words(job)
        self.progress.update(
            bar,
            total=None if percent is None else 100,
            completed=0 if percent is None else percent,
            amount="" if percent is None else f"{percent} %",
            label=label,
        )

    def note(self, text: str) -> None:
        """Above the bars."""
        self.progress.console.print(Text(text, "yellow"), soft_wrap=True)


@dataclass(slots=True)
class Workers:
    """Tells whether any worker could take a job: a row that is not dead and whose counter moves while we look."""

    beats: dict[uuid.UUID, int] = field(default_factory=dict)
    moved_at: float = field(default_factory=time.monotonic)

    def missing(self, job: Job) -> str:
        """One sentence when nobody will pick `job` up, else ""; call it again and again."""
        nodes = WorkerNode.objects.filter(dead_at__isnull=True, drain_at__isnull=True)
        beats = {node.boot: node.beats for node in nodes if job.queue in node.queues}
        now = time.monotonic()
        if beats and beats != self.beats:
            self.beats, self.moved_at = beats, now
        elif not beats or now - self.moved_at > 3 * settings.PIHERDER_BEAT_SEC:
            return no_worker(job.queue)
        return ""


def no_worker(queue: str) -> str:
    """One sentence that says how to start a worker for `queue`."""
    for_queue = "" if queue == settings.CELERY_TASK_DEFAULT_QUEUE else f" for the queue {queue}"
    return f"No worker is running{for_queue}: start one with make run; the job waits for it."


def without_row(job: Job) -> Job:
    """A job that had ended before this look, or whose row was deleted while it was followed."""
    if job.is_active:
        job.status, job.error = Status.FAILED, "The job's row was deleted."
    return job


@dataclass(slots=True)
class Follower:
    """Looks at jobs until they have ended."""

    jobs: list[Job]
    screen: Screen
    seen: dict[int, int] = field(default_factory=dict)
    workers: Workers = field(default_factory=Workers)
    warned: bool = False

    def follow(self, timeout: float | None = None) -> list[Job]:
        """The jobs when all have ended, or as they stand after `timeout` seconds."""
        give_up = None if timeout is None else time.monotonic() + timeout
        while True:
            patiently(self.look)
            if not any(job.is_active for job in self.jobs):
                return self.jobs
            left = POLL if give_up is None else min(POLL, give_up - time.monotonic())
            if left <= 0:
                return self.jobs
            time.sleep(left)

    def look(self) -> None:
        """One look at every job that had not ended before."""
        fresh = Job.objects.select_related("host").in_bulk([job.pk for job in self.jobs if job.is_active])
        self.jobs = [fresh.get(job.pk) or without_row(job) for job in self.jobs]
        for job in fresh.values():
            self._show_lines(job)
            self.screen.state(job)
        self._warn([job for job in fresh.values() if job.status == Status.PENDING and not job.attempt])
        if not connection.in_atomic_block:  # a snapshot must not outlive one look
            connection.close_if_unusable_or_obsolete()

    def _show_lines(self, job: Job) -> None:
        last = self.seen.get(job.pk, 0)
        for line in JobLine.objects.filter(job=job, number__gt=last).order_by("number")[:LINES]:
            if line.number > last + 1:
                self.screen.line(
                    job, f"… {line.number - last - 1} lines left out; whole log: ./herder job {job.pk} --log"
                )
            self.screen.line(job, line.text)
            last = line.number
        self.seen[job.pk] = last

    def _warn(self, queued: Sequence[Job]) -> None:
        for job in queued:
            if not self.warned and (text := self.workers.missing(job)):
                self.warned = True
                self.screen.note(text)
