"""What a restored database is told before anything may look at it: nothing of then is under way any more."""

from __future__ import annotations

import json
from contextlib import suppress

from django.contrib.sessions.models import Session
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from jobs import transitions
from jobs.models import ACTIVE, BeatLease, EngineSettings, Failure, Job, Lane, ScheduleFire, Status, WorkerNode
from jobs.services import Asker, hold
from jobs.transitions import End, LostClaim
from piherder.archive.overview import KIND
from piherder.archive.postgres import quoted

SENTENCE = "The job was active when the archive was made that this herder was restored from; it was not resumed."


def reason(archive: str) -> str:
    """Why the herd is held, as every door shows it."""
    return f"restored from {archive}"


def holding(schema: str, archive: str, asker: Asker) -> str:
    """SQL for PostgreSQL that holds the herd, whatever columns the switch's row had in the archive's version.

    It belongs into the transaction of the restore: no pending job of then may ever be seen without it.
    """
    row = EngineSettings(pk=1, held_at=timezone.now(), held_by=asker.words, hold_reason=reason(archive)[:200])
    values = {field.column: field.value_from_object(row) for field in EngineSettings._meta.concrete_fields}
    literal = json.dumps(values, cls=DjangoJSONEncoder).replace("'", "''")
    table = f"{quoted(schema)}.{quoted(EngineSettings._meta.db_table)}"
    moved = ", ".join(f"{name} = EXCLUDED.{name}" for name in ("held_at", "held_by", "hold_reason"))
    return (
        f"INSERT INTO {table} SELECT * FROM pg_catalog.jsonb_populate_record(NULL::{table}, '{literal}') "
        f"ON CONFLICT (id) DO UPDATE SET {moved};"
    )


def settle(archive: str, asker: Asker) -> int:
    """Hold the herd, end what was active, forget who was at work; returns the number of jobs ended.

    One transaction: who looks sees all of it or nothing.
    """
    now = timezone.now()
    with transaction.atomic():
        hold(reason(archive), asker=asker)
        ended = sum(end(job, archive) for job in Job.objects.filter(status__in=ACTIVE))
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


def end(job: Job, archive: str) -> bool:
    """End one active job with its lanes, its event and a code that fits."""
    was_running = job.status == Status.RUNNING
    verdict = End(Status.FAILED, failure=Failure.WORKER_LOST if was_running else Failure.EXPIRED, error=SENTENCE)
    with suppress(LostClaim):
        job.then = None  # neither does what would have followed it go on
        if was_running:
            transitions.end_orphan(job, made(archive) if job.kind == KIND else verdict)
        elif job.attempt is not None:
            transitions.fail_attempt(job.pk, job.attempt, verdict)
        else:
            transitions.end_pending(job, verdict)
        return True
    return False


def made(archive: str) -> End:
    """The end of the one backup of the herder that can run in a dump: it made the archive that the dump came out of."""
    return End(Status.SUCCEEDED, summary=f"Made {archive}, which this herder was restored from.")
