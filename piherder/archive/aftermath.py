"""What a restored database is told before anything may look at it: nothing of then is under way any more."""

from __future__ import annotations

from contextlib import suppress

from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from jobs import transitions
from jobs.models import ACTIVE, BeatLease, Failure, Job, Lane, ScheduleFire, Status, WorkerNode
from jobs.services import Asker, hold
from jobs.transitions import End, LostClaim

SENTENCE = "The job was active when the archive was made that this herder was restored from; it was not resumed."


def reason(archive: str) -> str:
    """Why the herd is held, as every door shows it."""
    return f"restored from {archive}"


def settle(archive: str, asker: Asker) -> int:
    """Hold the herd, end what was active, forget who was at work; returns the number of jobs ended.

    One transaction: who looks sees all of it or nothing.
    """
    now = timezone.now()
    with transaction.atomic():
        hold(reason(archive), asker=asker)
        ended = sum(end(job) for job in Job.objects.filter(status__in=ACTIVE))
        Lane.objects.all().delete()
        WorkerNode.objects.filter(dead_at__isnull=True).update(dead_at=now, dead_why="restored from an archive")
        BeatLease.objects.update(holder=None, name="")
        # Due times between the archive and now are over: without this each schedule would fire at once.
        PeriodicTask.objects.update(last_run_at=now)
        ScheduleFire.objects.exclude(owed=[]).update(owed=[])
        unfinished = ScheduleFire.objects.filter(ended_at__isnull=True)
        unfinished.update(ended_at=now, text="Not carried on: the herder was restored from an archive.")
        # Someone who has logged out since must not be logged in again.
        Session.objects.all().delete()
    return ended


def end(job: Job) -> bool:
    """Fail one active job with its lanes, its event and a code that fits."""
    was_running = job.status == Status.RUNNING
    verdict = End(Status.FAILED, failure=Failure.WORKER_LOST if was_running else Failure.EXPIRED, error=SENTENCE)
    with suppress(LostClaim):
        if was_running:
            transitions.end_orphan(job, verdict)
        elif job.attempt is not None:
            transitions.fail_attempt(job.pk, job.attempt, verdict)
        else:
            transitions.end_pending(job, verdict)
        return True
    return False
