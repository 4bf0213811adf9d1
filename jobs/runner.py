"""Carries out one job on behalf of a message: pick up, reach the host, take the mutex, claim, run, finish.

Any step that fails before the claim is undone in reverse and the row waits; after the claim the job ends, whatever
happens. Every write is fenced by the attempt.
"""

from __future__ import annotations

import logging
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError, DataError, IntegrityError
from django.db.models import Q

from jobs import logs, node, outcome, registry, slots, transitions
from jobs.beside import Beside
from jobs.masks import mask_of, masked
from jobs.models import EngineSettings, Failure, Job, Lane, Status, WaitingOn, WorkerNode
from jobs.mutex import HostMutex, RedisAway
from jobs.patience import patiently
from jobs.registry import HostDown, HostRefused, NotYet, UnknownKind
from jobs.run import LiveRun
from jobs.transitions import End, LostClaim

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.node import Me
    from jobs.registry import Family, Session

logger = logging.getLogger(__name__)
SOON = timedelta(seconds=5)
NOT_YET = timedelta(seconds=15)


class PutBack(Exception):
    """The job cannot start now; it waits on `on` and is looked at again after `pause`."""

    def __init__(self, on: WaitingOn, why: str, pause: timedelta = SOON) -> None:
        super().__init__(why)
        self.on, self.pause = on, pause


class LateCheck:
    """The check that a connection made at pick-up calls: nothing until the work runs, then the work's own."""

    def __init__(self) -> None:
        self.check: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self.check:
            self.check()


@dataclass(slots=True)
class Held:
    """What an attempt has taken so far, given back in reverse."""

    check: LateCheck = field(default_factory=LateCheck)
    session: Session | None = None
    mutex: HostMutex | None = None

    def give_back(self, attempt: uuid.UUID) -> None:
        """Release the mutex, what is left of the fence, and the connection."""
        if self.mutex:
            self.mutex.release()
            with suppress(DatabaseError):  # then the end of the row frees it, or the sweep does
                Lane.objects.filter(name=Lane.FENCE, attempt=attempt).delete()
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
    if may_not_start(job, me) or slots.deferred(job, me):
        return
    with suppress(LostClaim):
        attempt = _pick_up(job_id, me)
        _carry_out(job, attempt, me)


def _redelivered(job: Job) -> None:
    """A running row met by a message: only a node that is marked dead lets it fail.

    What can be settled is left to a sweep.
    """
    with suppress(UnknownKind):
        if registry.settle_of(registry.get(job.kind)):
            return
    if job.boot and not WorkerNode.objects.filter(pk=job.boot, dead_at__isnull=True).exists():
        with suppress(LostClaim):
            transitions.end_orphan(job, outcome.worker_lost(job.node))


def may_not_start(job: Job, me: Me) -> bool:
    """True while this message must not start the job: the herd is held, the host paused, or this worker drains.

    The row stays pending with its hint marked as gone, so that the sweeper publishes it again when it may start.
    """
    held = EngineSettings.load().held or (job.host_id and registry.gate().paused(job.host_id))
    draining = WorkerNode.objects.filter(pk=me.boot, drain_at__isnull=False).exists()
    if held or draining:
        Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True).update(published_at=None)
    return bool(held or draining)


def _pick_up(job_id: int, me: Me) -> uuid.UUID:
    """Pick up with patience: a call whose answer got lost with the database has gone through all the same.

    Raises LostClaim.
    """
    attempt = uuid.uuid4()
    _unless_done(lambda: transitions.pick_up(job_id, me, attempt), Q(status=Status.PENDING, attempt=attempt), job_id)
    return attempt


def _unless_done(step: Callable[[], object], done: Q, job_id: int) -> None:
    """Make a step with patience; one that finds its own result is done. Raises LostClaim."""

    def turn() -> None:
        try:
            step()
        except LostClaim:
            if not Job.objects.filter(done, pk=job_id).exists():
                raise

    patiently(turn)


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
        except Exception as error:
            transitions.fail_attempt(job.pk, attempt, _hopeless(error))
            return
        if _claimed(job.pk, attempt):
            _work(job, attempt, family, held, me)
    finally:
        held.give_back(attempt)


def _hopeless(error: Exception) -> End:
    """The end of a job that cannot start at all, also where a fault of ours is the reason: put back, it would loop.

    Raises the database's errors and LostClaim again: after those the sweeper puts the row back.
    """
    if isinstance(error, DatabaseError | LostClaim):
        raise error
    if isinstance(error, HostRefused):
        return End(Status.FAILED, failure=error.code, error=str(error))
    if isinstance(error, UnknownKind):
        return End(Status.FAILED, failure=Failure.UNKNOWN_KIND, error=str(error))
    logger.error("a job cannot start", exc_info=error)
    return outcome.fault(error)


def _claimed(job_id: int, attempt: uuid.UUID) -> bool:
    """False when a cancel came first, which then ends the row."""
    try:
        _unless_done(lambda: transitions.claim(job_id, attempt), Q(status=Status.RUNNING, attempt=attempt), job_id)
    except LostClaim:
        patiently(lambda: transitions.put_back(job_id, attempt, WaitingOn.NOTHING, "", SOON))
        return False
    return True


def _leave_a_slot(job: Job, family: Family, me: Me) -> None:
    """Look again after the pick-up: two long copies may have seen the same free slot."""
    if not slots.is_free(job, family, me):
        raise PutBack(WaitingOn.WORKER, slots.KEPT_FREE, slots.PAUSE)


def _reach(job: Job, family: Family, held: Held) -> None:
    if not (family.needs_host and family.reaches) or job.host_id is None:
        return
    try:
        if not registry.gate().port_answers([job.host_id])[job.host_id]:
            raise HostDown("The host does not answer on its SSH port.")
        held.session = registry.gate().open(job.host_id, held.check)
    except HostDown as down:
        pause = timedelta(seconds=settings.PIHERDER_PROBE_SEC)
        raise PutBack(WaitingOn.HOST, str(down), pause) from None


def _lock(job: Job, attempt: uuid.UUID, family: Family, held: Held) -> None:
    """The fence rows first, then the Redis keys; both or none."""
    if not family.mutex:
        return
    hosts = sorted(pk for pk in {job.host_id, job.peer_host_id} if pk is not None)
    try:
        transitions.take_fence(job.pk, attempt, hosts)
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
    mask = mask_of(held.session.secrets if held.session else ())
    log = logs.JobLog(job.pk, first=job.log_lines, mask=mask)
    live = LiveRun(job, attempt, log, held.session)
    held.check.check = live.check_cancel
    beside = Beside(live, me.boot, job.time_limit, held.mutex, time.monotonic())
    beside.start()
    try:
        end = outcome.carry_out(family, live, me)
    except NotYet as wait:
        beside.finish()
        _write_lines(live)
        why = str(wait)
        patiently(lambda: transitions.put_back(job.pk, attempt, WaitingOn.LOCK, why, NOT_YET))
        return
    finally:
        beside.finish()
    _finish(live, family, masked(end, mask) if end else None)
    if live.leave:
        raise SystemExit(0)


def _finish(live: LiveRun, family: Family, end: End | None) -> None:
    """Write the last lines and the end; a database that is away is waited for, as long as nobody took the row."""
    if end is None:
        live.job_log.close()
        return
    _write_lines(live)
    patiently(live.write_progress)
    try:
        _store(live, end)
    except LostClaim:
        return
    _settle_log(live.job_id, keep=family.keep_log or end.status != Status.SUCCEEDED)


def _write_lines(live: LiveRun) -> None:
    """Store what the thread beside it had not stored yet, while the row is still running, and close the file."""
    rows = live.job_log.take()
    live.job_log.close()
    patiently(lambda: logs.store(live.job_id, live.attempt_id, rows))


def _store(live: LiveRun, end: End) -> None:
    """Write the end; one that the database cannot hold is replaced by one that says so. Raises LostClaim."""
    try:
        patiently(lambda: transitions.finish(live.job_id, live.attempt_id, end))
    except (TypeError, ValueError, DataError) as error:
        logger.exception("job %s: its outcome cannot be stored", live.job_id)
        said = outcome.fault(error, f"; it had come to this: {end.error or end.summary}")
        patiently(lambda: transitions.finish(live.job_id, live.attempt_id, said))


def _settle_log(job_id: int, *, keep: bool) -> None:
    try:
        if keep:
            logs.compress(job_id)
        else:
            patiently(lambda: logs.discard(job_id))
    except OSError as error:
        logger.error("job %s: its log file was left as it is: %s", job_id, error)
