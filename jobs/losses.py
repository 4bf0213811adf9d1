"""What becomes of a worker that went silent and of the rows it leaves behind."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.db import DatabaseError
from django.utils import timezone

from jobs import registry, transitions
from jobs.models import Job, Status, WorkerNode
from jobs.outcome import worker_lost
from jobs.registry import HostDown, HostRefused, JobFailed, StopWork, Summary
from jobs.transitions import End

if TYPE_CHECKING:
    from jobs.node import Me

logger = logging.getLogger(__name__)


def bury(node: WorkerNode, why: str) -> bool:
    """Mark a node dead unless its counter moved meanwhile; True when it was this call that did."""
    silent = WorkerNode.objects.filter(pk=node.pk, dead_at__isnull=True, beats=node.beats)
    done = bool(silent.update(dead_at=timezone.now(), dead_why=why[:200]))
    if done:
        logger.warning("worker %s is dead: %s", node.name, why)
    return done


def end_lost(job: Job, me: Me | None) -> None:
    """The end of a row whose worker is gone: put back where nothing ran, settled or failed where it did.

    Without a worker of our own (`me` None, in beat) settling is left to any worker that lives. Raises LostClaim.
    """
    if job.status == Status.PENDING:
        transitions.release_pick_up(job, f"the worker {job.node} was lost before the work began")
        return
    look = look_of(job)
    if look and me:
        attempt = transitions.take_over(job, me)
        transitions.finish(job.pk, attempt, _verdict(look, job))
    elif look is None or not WorkerNode.objects.filter(dead_at__isnull=True).exists():
        transitions.end_orphan(job, worker_lost(job.node))


def look_of(job: Job) -> registry.Settle | None:
    """The read-only look at the host that settles a running row of this kind; None when there is none."""
    if job.status != Status.RUNNING:
        return None
    family = registry.find(job.kind)
    return registry.settle_of(family) if family else None


def _verdict(look: registry.Settle, job: Job) -> End:
    found: Summary | JobFailed | None
    try:
        found = look(job)
    except (JobFailed, HostDown, HostRefused, StopWork) as error:
        found = JobFailed(str(error))
    except DatabaseError:
        raise
    except Exception:  # a look that breaks must not be tried for ever
        logger.exception("job %s: its end cannot be settled", job.pk)
        found = None
    if isinstance(found, Summary):
        return End(Status.SUCCEEDED, summary=found.text, result=found.result)
    if isinstance(found, JobFailed):
        return End(Status.FAILED, failure=found.code, error=str(found), result=found.result)
    return worker_lost(job.node)
