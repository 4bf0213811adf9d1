"""From a request to a running job, beside raw Celery's publish to start; both workers idle, one at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench import raw
from bench.asking import ask, ended
from bench.figures import Aim, Kind, Result, median, percentile
from bench.programs import migrate, until, worker
from jobs.models import Job
from jobs.tasks import broker

if TYPE_CHECKING:
    from pathlib import Path

AIM = Aim(Kind.DIFFERENCE, 50)


def engine() -> float:
    """Milliseconds from the request to the row's `started_at`."""
    began = time.time()
    job = ask("noop")
    ended([job])
    started = Job.objects.values_list("started_at", flat=True).get(pk=job)
    assert started is not None
    return 1000 * (started.timestamp() - began)


def celery() -> float:
    """Milliseconds from the publish to the task's first line."""
    client = broker()
    client.delete(raw.STARTS)
    raw.started.apply_async((time.time(),))
    until(lambda: bool(client.llen(raw.STARTS)), "the raw task starts")
    return 1000 * float(client.lrange(raw.STARTS, 0, 0)[0])


def run(folder: Path, quick: bool) -> list[Result]:
    """One line: medians over the rounds of each round's p95."""
    rounds, count = (2, 10) if quick else (5, 40)
    migrate()
    ours, theirs = [], []
    with worker(folder), worker(folder, "raw", app="bench.raw"):
        for _ in range(4):
            engine(), celery()
        for _ in range(rounds):
            pairs = [(celery(), engine()) for _ in range(count)]
            theirs.append(percentile((raw for raw, _ in pairs), 0.95))
            ours.append(percentile((job for _, job in pairs), 0.95))
    note = f"p95 of {count} in each round; the job's row and lanes are written, claimed and marked running meanwhile"
    return [Result("request to running, p95", median(ours), "ms", AIM, median(theirs), rounds, note)]
