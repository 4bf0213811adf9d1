"""What a fault may not leave behind."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jobs import mutex
from jobs.models import ACTIVE, Job, Lane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.herd import Herd


def leftovers(herd: Herd) -> list[str]:
    """What a fault left behind; empty when all is as before."""
    found = [f"active: {job}" for job in Job.objects.filter(status__in=ACTIVE)]
    found += [f"lane: {lane} of {lane.job}" for lane in Lane.objects.all()]
    found += [f"mutex: {key!r}" for key in mutex.client().scan_iter("piherder:server_lock:*")]
    return found + [f"process: {pid} {words}" for pid, words in strays(herd)]


def strays(herd: Herd) -> list[tuple[int, str]]:
    """Processes with the herd's environment that are neither its own nor their pools."""
    own = {p.pid for p in herd.processes.values() if p.running}
    allowed = own | {child for p in herd.processes.values() for child in p.children}
    allowed |= {os.getpid(), herd.redis.pid}
    mark = f"PIHERDER_DATA={herd.folder}\0".encode()
    return [(pid, words) for pid, words in processes_with(mark) if pid not in allowed]


def processes_with(mark: bytes) -> Iterator[tuple[int, str]]:
    """Pid and command line of every process whose environment holds `mark`."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    yield (
                        int(entry.name),
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
                    )
