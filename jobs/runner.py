"""Carries out one job on behalf of a message: pick up, reach the host, take the mutex, claim, run, finish.

Any step that fails before the claim is undone in reverse and the row waits; after the claim the job ends, whatever
happens. Every write is fenced by the attempt.
"""

from __future__ import annotations

import logging
import traceback
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import IntegrityError, transaction

from jobs import logs, node, registry, transitions
from jobs.beside import CANCEL, Beside
from jobs.models import ACTIVE, EngineSettings, Failure, Job, Lane, Status, WaitingOn, WorkerNode
from jobs.mutex import HostMutex, RedisAway
from jobs.patience import patiently
from jobs.registry import HostDown, HostRefused, JobFailed, StopWork, UnknownKind
from jobs.run import LiveRun
from jobs.transitions import End, LostClaim

if TYPE_CHECKING:
    from jobs.node import Me
    from jobs.registry import Family, Session

logger = logging.getLogger(__name__)
SOON = timedelta(seconds=5)


class PutBack(Exception):
    """The job cannot start now; it waits on `on` and is looked at again after `pause`."""

    def __init__(self, on: WaitingOn, why: str, pause: timedelta = SOON) -> None:
        super().__init__(why)
        self.on, self.pause = on, pause


@dataclass(slots=True)
class Held:
    """What an attempt has taken so far, given back in reverse."""

    session: Session | None = None
    mutex: HostMutex | None = None

    def give_back(self, attempt: uuid.UUID) -> None:
        """Release the mutex, what is left of the fence, and the connection."""
        if self.mutex:
            Lane.objects.filter(name=Lane.FENCE, attempt=attempt).delete()
            self.mutex.release()
        if self.session:
            with suppress(Exception):  # a connection that is already broken cannot be closed twice
                self.session.close()


def run(job_id: int) -> None:
    """Look at the job that a message named and carry it out if it is ours to carry out."""
    me = node.me()
    job = Job.objects.filter(pk=job_id).first()
    if job is None or job.status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED):
        return
    if job.status == Status.RUNNING:
        _redelivered(job)
        return
    if may_not_start(job, me):
        return
    with suppress(LostClaim):
        attempt = transitions.pick_up(job_id, me)
        _carry_out(job, attempt, me)


def _redelivered(job: Job) -> None:
    """A running row met by a message: only a node that is marked dead lets it fail."""
    if not WorkerNode.objects.filter(pk=job.boot, dead_at__isnull=True).exists():
        with suppress(LostClaim):
            transitions.end_orphan(job, worker_lost(job.node))


def worker_lost(name: str) -> End:
    """The end of a job whose worker went away."""
    return End(
        Status.FAILED,
        failure=Failure.WORKER_LOST,
        error=f"The worker {name} was lost while the job ran; it was not resumed. Run it again.",
    )


def may_not_start(job: Job, me: Me) -> bool:
    """True while this message must not start the job: the herd is held, the host paused, or this worker drains.

    The row stays pending with its hint marked as gone, so that the sweeper publishes it again when it may start.
    """
    held = EngineSettings.load().held or (job.host_id and registry.gate().paused(job.host_id))
    draining = WorkerNode.objects.filter(pk=me.boot, drain_at__isnull=False).exists()
    if held or draining:
        Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True).update(published_at=None)
    return bool(held or draining)


def _carry_out(job: Job, attempt: uuid.UUID, me: Me) -> None:
    held = Held()
    try:
        try:
            family = registry.get(job.kind)
            _leave_a_slot(job, family, me)
            _reach(job, family, held)
            _lock(job, attempt, family, held)
        except PutBack as wait:
            transitions.put_back(job.pk, attempt, wait.on, str(wait), wait.pause)
            return
        except UnknownKind as error:
            transitions.fail_attempt(job.pk, attempt, End(Status.FAILED, failure=Failure.UNKNOWN_KIND, error=str(error)))
            return
        except HostRefused as error:
            transitions.fail_attempt(job.pk, attempt, End(Status.FAILED, failure=error.code, error=str(error)))
            return
        if _claimed(job.pk, attempt):
            _work(job, attempt, family, held, me)
    finally:
        held.give_back(attempt)


def _claimed(job_id: int, attempt: uuid.UUID) -> bool:
    """False when a cancel came first, which then ends the row."""
    try:
        transitions.claim(job_id, attempt)
    except LostClaim:
        transitions.put_back(job_id, attempt, WaitingOn.NOTHING, "", SOON)
        return False
    return True


def _leave_a_slot(job: Job, family: Family, me: Me) -> None:
    """A scheduled long copy starts only while another slot of this worker stays free."""
    if not (family.leaves_a_slot and job.fire_id):
        return
    slots = WorkerNode.objects.filter(pk=me.boot).values_list("slots", flat=True).first() or 1
    reserved = min(settings.PIHERDER_RESERVED_SLOTS, slots - 1)
    others = Job.objects.filter(boot=me.boot, status__in=ACTIVE, attempt__isnull=False).exclude(pk=job.pk)
    before_me = sum(1 for other in others if other.status == Status.RUNNING or other.pk < job.pk)
    if before_me + 1 > slots - reserved:
        raise PutBack(WaitingOn.WORKER, "A slot is kept free for work that a person starts.")


def _reach(job: Job, family: Family, held: Held) -> None:
    if not family.needs_host or job.host_id is None:
        return
    try:
        if not registry.gate().port_answers([job.host_id])[job.host_id]:
            raise HostDown("The host does not answer on its SSH port.")
        held.session = registry.gate().open(job.host_id, lambda: None)
    except HostDown as down:
        pause = timedelta(seconds=settings.PIHERDER_PROBE_SEC)
        raise PutBack(WaitingOn.HOST, str(down), pause) from None


def _lock(job: Job, attempt: uuid.UUID, family: Family, held: Held) -> None:
    """The fence rows first, then the Redis keys; both or none."""
    if not family.mutex:
        return
    hosts = sorted(pk for pk in {job.host_id, job.peer_host_id} if pk is not None)
    try:
        with transaction.atomic():
            Lane.objects.bulk_create([Lane(name=Lane.FENCE, host_id=pk, job=job, attempt=attempt) for pk in hosts])
    except IntegrityError:
        raise PutBack(WaitingOn.LOCK, _fence_holder(hosts, job)) from None
    mutex = HostMutex.of(hosts, job.pk, attempt)
    try:
        holder = mutex.take()
    except RedisAway as away:
        raise PutBack(WaitingOn.LOCK, f"{away} The job starts when it does.") from None
    if holder:
        raise PutBack(WaitingOn.LOCK, f"Job {holder.partition(':')[0]} holds the host's copy lock.")
    held.mutex = mutex


def _fence_holder(hosts: list[int], job: Job) -> str:
    lane = Lane.objects.filter(name=Lane.FENCE, host__in=hosts).exclude(job=job).select_related("job").first()
    return f"Job {lane.job_id} ({lane.job.kind}) is copying on this host." if lane else "Another job was copying."


def _work(job: Job, attempt: uuid.UUID, family: Family, held: Held, me: Me) -> None:
    log = logs.JobLog(job.pk, first=job.log_lines)
    live = LiveRun(job, attempt, log, held.session)
    beside = Beside(live, me.boot, job.time_limit, held.mutex)
    beside.start()
    try:
        end = _outcome(family, live, me)
    finally:
        beside.finish()
    _finish(live, family, end)
    if live.leave:
        raise SystemExit(0)


def _outcome(family: Family, live: LiveRun, me: Me) -> End | None:
    """Run the family and say how it ended; None when the row is no longer ours."""
    try:
        summary = family.run(live)
        return End(Status.SUCCEEDED, summary=summary.text, result=summary.result)
    except LostClaim:
        return None
    except StopWork as stop:
        return _stopped(stop, me)
    except JobFailed as failed:
        return End(Status.FAILED, failure=failed.code, error=str(failed), result=failed.result)
    except SystemExit:  # a cold shutdown of the worker
        live.leave = True
        return _stopped(StopWork(Failure.WORKER_STOPPED), me)
    except Exception as error:
        if _is_soft_limit(error):
            return _stopped(StopWork(Failure.TIME_LIMIT), me)
        for line in traceback.format_exc().splitlines():
            live.log(line)
        logger.exception("job %s", live.job_id)
        text = f"A fault in PiHerder ended the job ({type(error).__name__}: {error}); the log holds the traceback."
        return End(Status.FAILED, failure=Failure.ERROR, error=text)


def _is_soft_limit(error: Exception) -> bool:
    """Celery's soft limit, by name: only the modules that speak to Celery import it."""
    return type(error).__name__ == "SoftTimeLimitExceeded"


STOP_SENTENCES = {
    Failure.TIME_LIMIT: "Stopped at its time limit.",
    Failure.LOCK_LOST: "Stopped because another job holds the host's copy lock.",
    Failure.WORKER_STOPPED: "The worker {name} was stopped; the job was not resumed. Run it again.",
}


def _stopped(stop: StopWork, me: Me) -> End:
    if stop.reason == CANCEL:
        if stop.unconfirmed:
            text = "Cancelled, but the host could not be asked whether the work there has ended; its own lock still guards."
            return End(Status.CANCELLED, summary=text, failure=Failure.CANCEL_UNCONFIRMED, error=text)
        return End(Status.CANCELLED, summary="Cancelled; no process of the job is left.")
    reason = Failure(stop.reason)
    detail = stop.__notes__[0] if getattr(stop, "__notes__", None) else ""
    sentence = detail or STOP_SENTENCES.get(reason, str(stop)).format(name=me.name)
    return End(Status.FAILED, failure=reason, error=sentence)


def _finish(live: LiveRun, family: Family, end: End | None) -> None:
    """Write the last lines and the end; a database that is away is waited for, as long as nobody took the row."""
    rows = live.job_log.take()
    live.job_log.close()
    patiently(lambda: logs.store(live.job_id, rows))
    if end is None:
        return
    try:
        patiently(lambda: transitions.finish(live.job_id, live.attempt_id, end))
    except LostClaim:
        return
    if end.status == Status.SUCCEEDED and not family.keep_log:
        patiently(lambda: logs.discard(live.job_id))
    else:
        logs.compress(live.job_id)
