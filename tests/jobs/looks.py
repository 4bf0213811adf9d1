"""What tests of the sweeps look at."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from jobs import tasks

if TYPE_CHECKING:
    from jobs.models import Job


def again(job: Job) -> Job:
    job.refresh_from_db()
    return job


def state(job: Job) -> tuple[str, str]:
    job.refresh_from_db()
    return job.status, job.failure


def ago(**length: float) -> datetime:
    return timezone.now() - timedelta(**length)


def queue() -> int:
    return tasks.queue_depths({"celery"})["celery"] or 0
