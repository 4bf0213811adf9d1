"""Programs that a case starts and ends by their pid."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobs.models import WorkerNode
from piherder import env
from piherder.house import processes
from piherder.house.folder import CLONE
from piherder.house.stack import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE = 120.0


class TooSlow(Exception):
    """Something that a case waits for did not come."""


def until(check: Callable[[], bool], what: str, seconds: float = PATIENCE, pause: float = 0.01) -> float:
    """Seconds until `check` was true. Raises TooSlow."""
    began = time.monotonic()
    while not check():
        if time.monotonic() - began > seconds:
            raise TooSlow(f"not within {seconds:.0f} s: {what}")
        time.sleep(pause)
    return time.monotonic() - began


def migrate() -> None:
    """Make the tables."""
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v", "0"], cwd=CLONE, env=env.child_environment(), check=True
    )


class Worker:
    """One Celery worker process: `name` is its node's, `slots` its pool's size."""

    def __init__(self, folder: Path, name: str, slots: int = 2, app: str = "piherder") -> None:
        self.log = folder / f"{name}.log"
        options = ["--concurrency", str(slots), "-n", f"{name}@bench", "-l", "INFO"]
        argv = [program("celery"), "-A", app, "worker", *options]
        self.process = processes.spawn(argv, self.log, env.child_environment(), CLONE)

    def ready(self) -> Worker:
        """Itself, once it takes work. Raises TooSlow."""
        until(lambda: self._said_ready() or self.process.poll() is not None, "the worker is ready", pause=0.1)
        if not self._said_ready():
            raise TooSlow(f"the worker ended: {processes.tail(self.log)}")
        return self

    def _said_ready(self) -> bool:
        return " ready." in self.log.read_text(errors="replace")

    def beating(self) -> Worker:
        """Itself, once its node's row counts. Raises TooSlow."""
        rows = WorkerNode.objects.filter(pid=self.process.pid, beats__gt=0)
        until(rows.exists, "the worker's first beat", pause=0.1)
        return self

    @property
    def children(self) -> list[int]:
        """Process ids of its pool."""
        return processes.children(self.process.pid)

    def close(self) -> None:
        """Gone with its group, frozen or not."""
        processes.end(self.process, grace=0)


@contextmanager
def worker(folder: Path, name: str = "alpha", slots: int = 2, app: str = "piherder") -> Iterator[Worker]:
    """A worker that is ready."""
    found = Worker(folder, name, slots, app)
    try:
        yield found.ready() if app != "piherder" else found.ready().beating()
    finally:
        found.close()
