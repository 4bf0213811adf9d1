"""What an idle installation costs: bytes it makes the disk write in an hour, and memory; 14 hosts, facts every 15 min.

The embedded stack as `make run` starts it. An hour is scaled from some idle minutes and from one round of facts.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench import proc
from bench.asking import ask, ended
from bench.figures import Aim, Kind, Result, per_hour
from bench.machines import machines
from bench.place import scratch
from bench.programs import until
from jobs.models import WorkerNode
from piherder import env
from piherder.house import processes
from piherder.house.folder import CLONE, read_state
from piherder.house.ports import free_port

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from bench.machines import Machines

WRITTEN, MEMORY = Aim(Kind.VALUE, 10), Aim(Kind.VALUE, 350)
MB, MIB = 1_000_000, 1 << 20
HOSTS, ROUNDS_PER_HOUR = 14, 4
SETTLE = 15.0  # seconds until what a round left behind is written


@contextmanager
def stack(folder: Path, aside: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`make run` in this folder, up and beating; what it prints goes aside."""
    argv = [sys.executable, "-m", "piherder.house", "run", "--port", str(free_port())]
    process = processes.spawn(argv, aside / "stack.log", env.child_environment(), CLONE)
    try:
        until(lambda: bool((state := read_state(folder)) and state.address), "the stack is up", pause=0.5)
        until(WorkerNode.objects.filter(beats__gt=0).exists, "the worker beats", pause=0.5)
        yield process
    finally:
        processes.end(process, grace=60)


def read_all(there: Machines) -> None:
    """One round of facts, and time for it to settle."""
    ended([ask("host_facts", host.pk) for host in there.hosts])
    time.sleep(SETTLE)


def grown(pids: list[int], before: dict[int, int]) -> dict[str, float]:
    """Bytes written since `before`, by process."""
    return {f"{pid} {proc.name(pid)}": proc.written([pid]) - before.get(pid, 0) for pid in pids}


def snapshot(pids: list[int]) -> dict[int, int]:
    """Bytes written so far, by process."""
    return {pid: proc.written([pid]) for pid in pids}


def tell(title: str, parts: dict[str, float]) -> None:
    """Where it goes, for whoever wants to make it less."""
    print(title, file=sys.stderr)
    for name, amount in sorted(parts.items(), key=lambda part: -part[1]):
        print(f"  {amount / MB:8.3f} MB  {name}", file=sys.stderr)


def run(folder: Path, quick: bool) -> list[Result]:
    """Two lines."""
    minutes = 0.5 if quick else 5.0
    with scratch() as aside, stack(folder, aside) as process, machines(aside, HOSTS) as there:
        read_all(there)
        pids = proc.family(process.pid)
        before = snapshot(pids)
        time.sleep(60 * minutes)
        resting = grown(pids, before)
        tell(f"written in {minutes:g} idle minutes", resting)
        before, began = snapshot(pids), time.monotonic()
        read_all(there)
        working, seconds = grown(pids, before), time.monotonic() - began
        tell("written by one round of facts", working)
        pids = proc.family(process.pid)
        tell("memory", {f"{pid} {proc.name(pid)}": proc.memory([pid]) for pid in pids})
        memory = proc.memory(pids) / MIB
    rest = sum(resting.values())
    round_alone = sum(working.values()) - rest / (60 * minutes) * seconds
    hour = per_hour(rest, 60 * minutes, round_alone, ROUNDS_PER_HOUR) / MB
    parts = f"{rest / minutes * 60 / MB:.1f} MB at rest and {ROUNDS_PER_HOUR} rounds of {round_alone / MB:.1f} MB"
    return [
        Result("idle, written per hour", hour, "MB", WRITTEN, note=f"{parts}; {HOSTS} hosts"),
        Result(
            "idle, memory of everything", memory, "MiB", MEMORY, note="proportional share (PSS), supervisor included"
        ),
    ]
