"""Seconds until the job of a lost worker is failed: child killed, node killed for good, node frozen."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from bench.asking import ask
from bench.figures import Aim, Kind, Result, median
from bench.programs import Worker, migrate, until
from jobs.models import Failure, Job, Status
from piherder.house import processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODE, CHILD = Aim(Kind.VALUE, 30), Aim(Kind.VALUE, 5)
CALM, VICTIMS = "calm", ("killed", "frozen")


def failed(job: int) -> bool:
    """True when the row says that its worker was lost."""
    return Job.objects.filter(pk=job, status=Status.FAILED, failure=Failure.WORKER_LOST).exists()


@contextmanager
def nodes(folder: Path, turn: int) -> Iterator[dict[str, Worker]]:
    """Three nodes of one slot each: one that lives, one to kill, one to freeze."""
    with ExitStack() as stack:
        started = {name: Worker(folder, f"{name}{turn}", slots=1) for name in (CALM, *VICTIMS)}
        for node in started.values():
            stack.callback(node.close)
        yield {name: node.ready().beating() for name, node in started.items()}


def spread(names: list[str]) -> dict[str, int]:
    """A long job on each node, by the name in front of its `@`: each has one slot, so each gets one."""
    jobs = [ask("sleep", seconds=600) for _ in names]
    running = Job.objects.filter(pk__in=jobs, status=Status.RUNNING)
    until(lambda: running.count() == len(jobs), "every node works", pause=0.1)
    return {node.partition("@")[0]: pk for pk, node in running.values_list("pk", "node")}


def one_round(folder: Path, turn: int) -> dict[str, float]:
    """Seconds by what was done to the worker."""
    seconds: dict[str, float] = {}
    with nodes(folder, turn) as there:
        jobs = {name.rstrip("0123456789"): job for name, job in spread(list(there)).items()}
        os.kill(there[CALM].children[0], signal.SIGKILL)
        seconds["child"] = until(lambda: failed(jobs[CALM]), "the killed child's job fails")
        there["killed"].process.kill()
        processes.signal_group(there["frozen"].process, signal.SIGSTOP)
        seconds |= until_failed({name: jobs[name] for name in VICTIMS})
    return seconds


def until_failed(jobs: dict[str, int]) -> dict[str, float]:
    """Seconds from now until each of the jobs was failed."""
    began, seconds = time.monotonic(), dict[str, float]()

    def look() -> bool:
        for name in [name for name, job in jobs.items() if name not in seconds and failed(job)]:
            seconds[name] = time.monotonic() - began
        return len(seconds) == len(jobs)

    until(look, "the jobs of the lost nodes fail", pause=0.05)
    return seconds


def run(folder: Path, quick: bool) -> list[Result]:
    """Three lines."""
    rounds = 1 if quick else 5
    migrate()
    found = [one_round(folder, turn) for turn in range(rounds)]
    lines = (("child", "killed child's job fails", CHILD), ("killed", "killed node's job fails", NODE),
             ("frozen", "frozen node's job fails", NODE))  # fmt: skip
    return [Result(name, median(each[key] for each in found), "s", aim, rounds=rounds) for key, name, aim in lines]
