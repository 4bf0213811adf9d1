"""The Celery side: messages that name a job, the tasks that look at it, and what can be asked of the broker."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from celery import current_app, shared_task
from celery.exceptions import CeleryError
from django.db import close_old_connections
from django.db.models import F
from django.utils import timezone
from kombu.exceptions import KombuError
from kombu.exceptions import OperationalError as BrokerAway
from redis.exceptions import RedisError

from jobs import beside, hints, mutex, registry, runner
from jobs.models import ACTIVE, Job

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import redis

logger = logging.getLogger(__name__)
TASKS = (
    "backup_job",
    "exclusive_job",
    "housekeeping_job",
    "move_job",
    "host_bootstrap_job",
    "drive_copy_job",
    "nmap_job",
)
EARLY_ACK = {"host_bootstrap_job", "drive_copy_job"}
# Celery's limit is for a process whose guard (`beside`) is dead: it comes a margin after all that the guard waits for.
# That may be after the visibility time-out. A copy of the message delivered then finds the row running and ends.
BEYOND = timedelta(seconds=beside.PATIENCE + beside.CLEAN_UP_PATIENCE)
MARGIN = timedelta(seconds=60)


def _declare(name: str) -> Any:
    @shared_task(name=name, bind=False, acks_late=name not in EARLY_ACK, ignore_result=True)
    def carry_out(job_id: int) -> None:
        close_old_connections()  # the connection of the job before may have died meanwhile
        runner.run(job_id)

    return carry_out


declared = {name: _declare(name) for name in TASKS}


def task_of(job: Job) -> str:
    """Name of the Celery task that carries `job`; a kind that no longer exists goes where it is told so."""
    family = registry.find(job.kind)
    return family.task if family else "exclusive_job"


def publish(job_id: int) -> bool:
    """Send a hint for a pending job under the task id stored on its row; False when none was sent."""
    job = Job.objects.filter(pk=job_id, status__in=ACTIVE, attempt__isnull=True).first()
    return job is not None and publish_row(job)


def publish_row(job: Job) -> bool:
    """`publish`, unless a hint was sent since this row was read: of many that found its hint gone, one sends."""
    # Marked first: a hint that is marked and not sent is found by the sweeper, one sent and not marked is sent twice.
    now = timezone.now()
    free = Job.objects.filter(pk=job.pk, status__in=ACTIVE, attempt__isnull=True)
    as_read = free.filter(published_at=job.published_at) if job.published_at else free.filter(published_at__isnull=True)
    if not as_read.update(published_at=now, publishes=F("publishes") + 1):
        return False
    return _send(job, now)


def _send(job: Job, now: datetime) -> bool:
    hard = job.time_limit + BEYOND + 2 * MARGIN
    try:
        current_app.send_task(
            task_of(job),
            args=[job.pk],
            task_id=str(job.celery_task_id),
            queue=job.queue,
            time_limit=int(hard.total_seconds()),
            soft_time_limit=int((hard - MARGIN).total_seconds()),
            retry=False,
        )
    except (BrokerAway, RedisError, OSError) as error:
        logger.warning("job %s is saved and is published when the broker is back: %s", job.pk, error)
        Job.objects.filter(pk=job.pk, published_at=now).update(published_at=None)
        return False
    return True


hints.install(publish)


def revoke(job: Job) -> None:
    """Tell the workers to drop the message of a cancelled job; only a short cut, the row already refuses the claim."""
    try:
        current_app.control.revoke(str(job.celery_task_id))
    except (KombuError, CeleryError, RedisError, OSError) as error:
        logger.info("job %s: revoke was not sent: %s", job.pk, error)


def queue_depths(queues: Iterable[str]) -> dict[str, int | None]:
    """Messages waiting in each queue; None when the broker does not answer."""
    try:
        return {name: int(broker().llen(name)) for name in queues}
    except RedisError:
        return dict.fromkeys(queues)


def broker() -> redis.Redis:
    """Connection to the broker's database, which is also where the mutex lives."""
    return mutex.client()


@shared_task(name="tidy", ignore_result=False, acks_late=False)
def tidy() -> str:
    """Beat's nightly chore: drop ended jobs and their logs past their keep time. Losing its result costs nothing."""
    from jobs import housekeeping

    return housekeeping.tidy()
