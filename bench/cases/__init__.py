"""The cases: one file each, with `run(folder, quick)` that returns its results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """A case's file, what it measures, and whether it starts the embedded stack instead of meeting servers."""

    module: str
    what: str
    embedded: bool = False


CASES = {
    "jobs": Case("throughput", "no-op jobs a second, beside raw Celery"),
    "start": Case("latency", "from request to running, beside raw Celery"),
    "backup": Case("copies", "first and unchanged backup of 20,000 files, beside plain rsync"),
    "facts": Case("facts", "facts of 20 hosts, beside ansible"),
    "down": Case("down", "start of a job while 100 hosts are down"),
    "losses": Case("losses", "how fast a lost worker's job fails"),
    "idle": Case("idle", "bytes written and memory of an idle installation", embedded=True),
    "dashboards": Case("dashboards", "what open dashboards cost", embedded=True),
}
