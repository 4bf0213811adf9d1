"""What ages: ended jobs with their logs and events, dead workers, fired schedules."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.utils import timezone

from jobs import logs, registry
from jobs.models import TERMINAL, EngineSettings, Job, ScheduleFire, WorkerNode

BATCH = 200
SETTLED = timedelta(hours=1)  # by then whoever ended a job has compressed its log, or never will

logger = logging.getLogger(__name__)


def tidy() -> str:
    """Remove ended jobs past their keep time, in batches; returns one line that says how many went."""
    now = timezone.now()
    usual = timedelta(days=EngineSettings.load().keep_job_days)
    own = {family.kind: family.keep_for for family in registry.kinds() if family.keep_for}
    gone = sum(_drop(now - keep, kind=kind) for kind, keep in own.items())
    gone += _drop(now - usual, exclude=tuple(own))
    ScheduleFire.objects.filter(fired_at__lt=now - usual).delete()
    WorkerNode.objects.filter(dead_at__lt=now - timedelta(days=7)).delete()
    _compress_leftovers(now - SETTLED)
    return f"{gone} ended jobs removed."


def _drop(before: object, kind: str = "", exclude: tuple[str, ...] = ()) -> int:
    jobs = Job.objects.filter(status__in=TERMINAL, finished_at__lt=before).exclude(kind__in=exclude)
    if kind:
        jobs = jobs.filter(kind=kind)
    gone = last = 0
    while batch := list(jobs.filter(pk__gt=last).order_by("id").values_list("pk", flat=True)[:BATCH]):
        last = batch[-1]
        cleared = [job_id for job_id in batch if _discarded(job_id)]
        Job.objects.filter(pk__in=cleared).delete()
        gone += len(cleared)
    return gone


def _discarded(job_id: int) -> bool:
    """False when the job's log cannot be removed now; its row stays, or nothing would know of the file any more."""
    try:
        logs.discard(job_id)
    except OSError as error:
        logger.error("job %s: its log cannot be removed: %s", job_id, error)
        return False
    return True


def _compress_leftovers(before: datetime) -> None:
    """Compress the logs of jobs that were not ended by their own worker."""
    logs.remove_parts(before.timestamp())
    plain = sorted(logs.left_plain())
    for start in range(0, len(plain), BATCH):
        ended = Job.objects.filter(pk__in=plain[start : start + BATCH], status__in=TERMINAL, finished_at__lt=before)
        for job_id in ended.values_list("pk", flat=True):
            _compress(job_id)


def _compress(job_id: int) -> None:
    try:
        logs.compress(job_id)
    except OSError as error:
        logger.error("job %s: its log file was left as it is: %s", job_id, error)
