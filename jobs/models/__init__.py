"""The engine's tables. The database decides: each rule that matters is a constraint with a name."""

from jobs.models.engine import BeatLease, EngineSettings, ScheduleFire, WorkerNode
from jobs.models.job import ACTIVE, TERMINAL, Door, Failure, Job, JobEvent, JobLine, Lane, Status, WaitingOn

__all__ = (
    "ACTIVE",
    "TERMINAL",
    "BeatLease",
    "Door",
    "EngineSettings",
    "Failure",
    "Job",
    "JobEvent",
    "JobLine",
    "Lane",
    "ScheduleFire",
    "Status",
    "WaitingOn",
    "WorkerNode",
)
