"""No-op jobs a second through the engine, from the first request to the last end, beside raw Celery's no-op tasks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_celery_results.models import TaskResult

from bench import raw
from bench.asking import ask, ended
from bench.figures import Aim, Kind, Result, median
from bench.programs import migrate, until, worker
from jobs.tasks import broker

if TYPE_CHECKING:
    from pathlib import Path

AIM = Aim(Kind.RATIO, 0.35, at_least=True)


def engine(count: int) -> float:
    """Jobs a second."""
    began = time.monotonic()
    ended([ask("noop") for _ in range(count)])
    return count / (time.monotonic() - began)


def kept(count: int) -> float:
    """Tasks a second of raw Celery that keeps each result in the same PostgreSQL."""
    TaskResult.objects.all().delete()
    began = time.monotonic()
    for _ in range(count):
        raw.kept.apply_async()
    until(lambda: TaskResult.objects.filter(status="SUCCESS").count() >= count, "raw tasks end")
    return count / (time.monotonic() - began)


def bare(count: int) -> float:
    """Tasks a second of raw Celery that keeps nothing; it ends when no message is waiting or unacknowledged."""
    client = broker()
    began = time.monotonic()
    for _ in range(count):
        raw.noop.apply_async()
    until(lambda: not client.llen(raw.QUEUE) and not client.hlen("unacked"), "raw tasks end")
    return count / (time.monotonic() - began)


def run(folder: Path, quick: bool) -> list[Result]:
    """Two lines: beside raw Celery with results in PostgreSQL, and beside raw Celery that keeps nothing."""
    rounds, count = (2, 40) if quick else (5, 200)
    migrate()
    rates: dict[str, list[float]] = {"engine": [], "kept": [], "bare": []}
    with worker(folder), worker(folder, "raw", app="bench.raw"):
        ended([ask("noop") for _ in range(4)])
        for _ in range(rounds):
            rates["kept"].append(kept(2 * count))
            rates["engine"].append(engine(count))
            rates["bare"].append(bare(5 * count))
    ours, theirs, nothing = (median(rates[name]) for name in ("engine", "kept", "bare"))
    first = "both keep every outcome in PostgreSQL (raw Celery by django-celery-results); request to last end, 2 slots"
    second = "the raw tasks keep no result at all"
    return [
        Result("no-op jobs, results kept", ours, "/s", AIM, theirs, rounds, first),
        Result("no-op jobs, raw keeps none", ours, "/s", AIM, nothing, rounds, second),
    ]
