"""What tests of the runner do and look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs import mutex, runner
from jobs.models import Job, Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.registry import Summary
    from jobs.run import LiveRun
    from tests.jobs.gate import FakeGate


def run(job: Job) -> Job:
    """The row after one message was looked at."""
    runner.run(job.pk)
    job.refresh_from_db()
    return job


def raising(error: BaseException) -> Callable[[LiveRun], Summary]:
    def action(live: LiveRun) -> Summary:
        raise error

    return action


def nothing_is_held(gate: FakeGate) -> bool:
    return gate.all_closed and not Lane.objects.exists() and not mutex.client().keys("piherder:*")
