"""Named points in the engine at which a herd's process can be killed or halted, and a wall clock that can jump.

A file named like the point, in the control folder, is an order for the first process that passes there: `self` (kill -9
of this process), `node` (of the worker and this child), `halt` (wait until `<point>.go` exists). The file `clock` holds
seconds that are added to the wall clock, read at every look at it.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONGEST_HALT = 60.0
# point, module, function; before the call, after it, or always after it, also when it raised
POINTS = (
    ("publish:before", "tasks", "publish", "before"),
    ("publish:after", "tasks", "publish", "after"),
    ("message", "runner", "run", "before"),
    ("pick-up:before", "transitions", "pick_up", "before"),
    ("pick-up", "transitions", "pick_up", "after"),
    ("lock", "runner", "_lock", "after"),
    ("claim", "transitions", "claim", "after"),
    ("finish:begin", "transitions", "finish", "before"),
    ("finish:inside", "transitions", "_end", "after"),
    ("finish:done", "transitions", "finish", "after"),
    ("finish:over", "transitions", "finish", "always"),
    ("fire:opened", "schedules", "open_fire", "after"),
)


def strike(order: Path) -> None:
    """Carry out the order of this point, if there is one and nobody else has taken it."""
    taken = order.with_name(f"{order.name}.taken")
    try:
        order.rename(taken)
    except FileNotFoundError:
        return
    what = taken.read_text(encoding="ascii")
    if what == "halt":
        halt(order.with_name(f"{order.name}.go"))
        return
    if what == "node":
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def halt(until: Path) -> None:
    """Wait for the file, for at most LONGEST_HALT seconds."""
    give_up = time.monotonic() + LONGEST_HALT
    while not until.exists() and time.monotonic() < give_up:
        time.sleep(0.02)


def wrapped(function: Callable[..., Any], order: Path, when: str) -> Callable[..., Any]:
    """`function` with its point."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            strike(order)
        try:
            answer = function(*args, **kwargs)
        finally:
            if when == "always":
                strike(order)
        if when == "after":
            strike(order)
        return answer

    return call


def install(control: Path) -> None:
    """Set all points and the clock in this process."""
    from jobs import hints, runner, schedules, tasks, transitions

    modules = {"tasks": tasks, "runner": runner, "schedules": schedules, "transitions": transitions}
    for point, module, name, when in POINTS:
        setattr(modules[module], name, wrapped(getattr(modules[module], name), control / point, when))
    hints.install(tasks.publish)
    _bend_clock(control / "clock")


def _bend_clock(shift: Path) -> None:
    """The wall clock as the engine, Celery's transport and Django read it; monotonic clocks stay true."""
    from django.utils import timezone
    from kombu.transport import redis as transport

    true_time, true_now = time.time, timezone.now

    def seconds() -> float:
        try:
            return float(shift.read_text(encoding="ascii") or 0)
        except FileNotFoundError:
            return 0.0

    def now() -> datetime:
        return true_now() + timedelta(seconds=seconds())

    def wall() -> float:
        return true_time() + seconds()

    timezone.now = now
    time.time = wall
    vars(transport)["time"] = wall
