"""Counting the rsyncs on each host from /proc, again and again, as long as the demonstration runs."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROC = Path("/proc")
EVERY = 0.05  # seconds between two looks


def servers(proc: Path = PROC) -> dict[int, int]:
    """Process ids of living host sides of an rsync (`rsync --server`), each with its parent's."""
    found = {}
    for folder in proc.iterdir():
        if folder.name.isdigit() and _is_server(folder):
            parent = _living_parent(folder)
            if parent is not None:
                found[int(folder.name)] = parent
    return found


def _is_server(process: Path) -> bool:
    with suppress(OSError):
        words = (process / "cmdline").read_bytes().split(b"\0")
        return words[0].rpartition(b"/")[2] == b"rsync" and b"--server" in words
    return False


def _living_parent(process: Path) -> int | None:
    """Parent of a process; None when it ended or is a zombie (fields of /proc/PID/stat: proc_pid_stat(5))."""
    with suppress(OSError):
        state, parent = (process / "stat").read_text(errors="replace").rpartition(") ")[2].split()[:2]
        return None if state in "ZX" else int(parent)
    return None


def runs(found: Mapping[int, int]) -> set[int]:
    """The processes that stand for one run each: a receiving rsync forks, and its child is no second run."""
    return {pid for pid, parent in found.items() if parent not in found}


@dataclass(slots=True)
class Count:
    """How many rsyncs a host has now, had at most, and in how many looks it had one."""

    now: int = 0
    peak: int = 0
    busy: int = 0

    def note(self, number: int) -> None:
        """One look."""
        self.now = number
        self.peak = max(self.peak, number)
        self.busy += number > 0


@dataclass(slots=True)
class Watch:
    """Looks in a thread of its own. `hosts` maps a host's name to the question whether a process runs on it."""

    hosts: Mapping[str, Callable[[int], bool]]
    counts: dict[str, Count] = field(default_factory=dict)
    looks: int = 0
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.counts = {name: Count() for name in self.hosts}

    def look(self) -> None:
        """Count once."""
        found = runs(servers())
        for name, owns in self.hosts.items():
            self.counts[name].note(sum(owns(pid) for pid in found))
        self.looks += 1

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(EVERY):
            self.look()

    def stop(self) -> None:
        """End it; safe to call twice."""
        self._end.set()
        if self._thread:
            self._thread.join()

    @property
    def peaks(self) -> dict[str, int]:
        """The most rsyncs at once, by host."""
        return {name: count.peak for name, count in self.counts.items()}
