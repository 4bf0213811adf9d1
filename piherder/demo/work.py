"""Asking for jobs as any door does, and following them to their proven end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.follow import Follower
from jobs.models import Door, Job, Status
from jobs.services import Asker, Refused, request_job
from piherder.demo.proof import Disproved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from piherder.demo.stage import PlainStage

ASKER = Asker(Door.COMMAND, name="demo")
BUSY_SECONDS = 30.0
LONGEST = 90.0  # seconds for the jobs of one step
POLL = 0.1


@dataclass(frozen=True, slots=True)
class Work:
    """Where jobs are shown."""

    stage: PlainStage

    def ask(self, kind: str, host_id: int, params: dict[str, Any] | None = None) -> Job:
        """A requested job. A host's lane may be busy for a moment with what a schedule began. Raises Refused."""
        give_up = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return request_job(kind, host_id, params or {}, asker=ASKER).job
            except Refused as refused:
                if refused.code not in {"busy", "unavailable"} or time.monotonic() > give_up:
                    raise
                time.sleep(POLL)

    def follow(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs as they ended. Raises Disproved when one does not end in time."""
        ended = Follower(list(jobs), self.stage).follow(LONGEST)
        for job in ended:
            if job.is_active:
                raise Disproved(f"job {job.pk} ({job.kind} on {job.where}) did not end within {LONGEST:.0f} s")
        return ended

    def succeed(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs, all of which succeeded. Raises Disproved with the words of the first that did not."""
        ended = self.follow(jobs)
        for job in ended:
            if job.status != Status.SUCCEEDED:
                raise Disproved(f"{job.kind} on {job.where} ended as {job.status}: {job.evidence}")
        return ended

    def watch(self, job: Job, happened: Callable[[], bool], what: str) -> None:
        """Follow a running job until something `happened`. Raises Disproved when it ends, or takes too long, before."""
        follower = Follower([job], self.stage)
        give_up = time.monotonic() + LONGEST
        while not happened():
            follower.look()
            if not follower.jobs[0].is_active:
                raise Disproved(f"the backup was over before {what}: {follower.jobs[0].evidence}")
            if time.monotonic() > give_up:
                raise Disproved(f"{what} did not happen within {LONGEST:.0f} s")
            time.sleep(POLL)


def spans(jobs: Iterable[Job]) -> list[tuple[float, float]]:
    """When jobs ran, in seconds since 1970."""
    both = [(job.started_at, job.finished_at) for job in jobs]
    return [(start.timestamp(), end.timestamp()) for start, end in both if start and end]
