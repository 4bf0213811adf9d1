"""A job as JSON and as lines for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.follow import title, waiting_words
from jobs.management.door import CANCELLED, FAILED, PENDING, SUCCEEDED
from jobs.models import Job, Status
from jobs.spans import ago, stamp, took

if TYPE_CHECKING:
    from datetime import datetime

CODE_OF = {Status.SUCCEEDED: SUCCEEDED, Status.FAILED: FAILED, Status.CANCELLED: CANCELLED}
TIMES = (
    "created_at", "published_at", "picked_up_at", "started_at", "finished_at", "cancel_requested_at", "waiting_since",
    "next_probe_at",
)  # fmt: skip


def exit_code(job: Job) -> int:
    """The exit code that a job's state stands for."""
    return CODE_OF.get(Status(job.status), PENDING)


def as_json(job: Job) -> dict[str, Any]:
    """Everything a program may want to know of a job; moments are datetimes or None."""
    progress = {"done": job.progress_done, "total": job.progress_total, "percent": job.percent}
    length = job.duration
    return {
        "id": job.pk,
        "kind": job.kind,
        "host": job.where or None,
        "status": job.status,
        "state": job.state_words,
        "waiting_on": job.waiting_on or None,
        "waiting_why": job.waiting_why,
        "params": job.params,
        "node": job.node or None,
        "attempt": job.attempt,
        "step": job.step,
        "progress": {**progress, "label": job.progress_label},
        "summary": job.summary,
        "result": job.result,
        "failure": job.failure or None,
        "error": job.error,
        "log_lines": job.log_lines,
        "duration_seconds": None if length is None else round(length.total_seconds(), 3),
        "requested_by": job.requested_name,
        "door": job.door,
        **{name: getattr(job, name) for name in TIMES},
    }


def end_line(job: Job) -> str:
    """One line that says how a job ended, or what it still waits for."""
    if job.is_active:
        return f"{title(job)} is still pending: {waiting_words(job)}."
    length = f" in {took(job.duration)}" if job.duration else ""
    evidence = f": {job.evidence}" if job.evidence else "."
    return f"{title(job)} {job.state_words.lower()}{length}{evidence}"


def first_line(text: str) -> str:
    """The first line, for a table; more lines are hinted at."""
    head, _, rest = text.strip().partition("\n")
    return f"{head} …" if rest.strip() else head


def moment(value: datetime | None) -> str:
    """Date and distance: "2026-11-30 02:30 (5 h ago)"."""
    return f"{stamp(value)} ({ago(value)})" if value else "–"


def sentence(text: str) -> str:
    """`text` beginning with a capital letter; names inside stay as they are."""
    return text[:1].upper() + text[1:]
