"""What keeps nothing stuck: passes over nodes, rows and waits, each change by compare-and-set.

Any number of sweepers do no harm: each change names what it saw. A sweep reads a few small indexes and writes only
when it found something. Silence is measured with the sweeper's own monotonic clock.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone

from jobs import registry, runner, tasks, transitions
from jobs.models import EngineSettings, Failure, Job, Lane, Status, WaitingOn, WorkerNode
from jobs.node import Me
from jobs.registry import HostDown, HostRefused, JobFailed, StopWork, Summary
from jobs.transitions import End, LostClaim

logger = logging.getLogger(__name__)
HINT_AGE = timedelta(seconds=30)  # a hint younger than this may still be on its way
LONGEST_HINT_AGE = timedelta(minutes=30)
LOCK_PROBE = timedelta(seconds=2)
PROBERS = 8


@dataclass(slots=True)
class Sweeper:
    """Passes over the whole herd, made by every worker and every beat. `me` is None in beat."""

    me: Me | None = None
    active_jobs: Callable[[], set[int]] = set  # jobs that this worker's pool carries now
    seen: dict[uuid.UUID, tuple[int, float]] = field(default_factory=dict)
    missing: dict[int, uuid.UUID | None] = field(default_factory=dict)
    contact_since: float | None = None

    def sweep(self, now: float | None = None) -> None:
        """One pass at the monotonic second `now`."""
        moment = time.monotonic() if now is None else now
        self.contact_since = self.contact_since or moment
        self.bury_silent_nodes(moment)
        self.settle_orphans()
        if self.me:
            self.report_missing(self.me)
        self.expire()
        if EngineSettings.load().held:
            return
        self.probe_waiting_hosts()
        self.wake_lock_waiters()
        self.publish_lost_hints()

    def lost_contact(self) -> None:
        """The database did not answer: silence seen meanwhile counts for nothing."""
        self.contact_since = None
        self.seen.clear()

    # --- nodes ---------------------------------------------------------------------------------------------------

    def bury_silent_nodes(self, now: float) -> None:
        """Mark nodes dead whose counter has not moved for so long, all of it in unbroken contact with the database."""
        alive = WorkerNode.objects.filter(dead_at__isnull=True)
        for node in alive.exclude(pk=self.me.boot) if self.me else alive:
            beats, since = self.seen.get(node.boot, (-1, now))
            if beats != node.beats:
                self.seen[node.boot] = (node.beats, now)
            elif now - since >= settings.PIHERDER_SILENCE_SEC:
                bury(node, f"silent for {now - since:.0f} s")

    def settle_orphans(self) -> None:
        """End or put back the rows of boots that are dead or gone."""
        alive = WorkerNode.objects.filter(dead_at__isnull=True).values("boot")
        orphans = Job.objects.filter(boot__isnull=False, status__in=(Status.PENDING, Status.RUNNING))
        for job in orphans.exclude(boot__in=alive):
            with suppress(LostClaim):
                end_lost(job, self.me)

    def report_missing(self, me: Me) -> None:
        """Rows of this boot that its pool no longer carries, seen so in two sweeps, are lost."""
        rows = Job.objects.filter(boot=me.boot, status__in=(Status.PENDING, Status.RUNNING), attempt__isnull=False)
        carried = self.active_jobs()
        missing = {job.pk: job for job in rows if job.pk not in carried}
        for pk, job in missing.items():
            if self.missing.get(pk) == job.attempt:
                with suppress(LostClaim):
                    end_lost(job, me)
        self.missing = {pk: job.attempt for pk, job in missing.items()}

    # --- rows ----------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Fail rows that are still pending past what their kind allows."""
        now = timezone.now()
        for family in registry.kinds():
            if family.expires is None:
                continue
            late = Job.objects.filter(
                kind=family.kind, status=Status.PENDING, attempt__isnull=True, created_at__lt=now - family.expires
            )
            for job in late:
                seconds = int(family.expires.total_seconds())
                _end_pending(job, Failure.EXPIRED, f"No worker started it within {seconds} s. Run it again.")

    def publish_lost_hints(self) -> None:
        """Publish pending rows whose message is gone; the pause between two tries doubles."""
        queued = Job.objects.filter(
            status=Status.PENDING, attempt__isnull=True, waiting_on__in=(WaitingOn.NOTHING, WaitingOn.WORKER)
        )
        rows = [job for job in queued.order_by("id") if self._due(job)]
        if not rows:
            return
        depths = tasks.queue_depths({job.queue for job in rows})
        for job in rows:
            if hint_is_gone(job, depths.get(job.queue), timezone.now()) and not self._paused(job):
                tasks.publish(job.pk)

    def _due(self, job: Job) -> bool:
        return job.next_probe_at is None or is_due(job.next_probe_at, timezone.now())

    def _paused(self, job: Job) -> bool:
        return job.host_id is not None and bool(registry.gate().paused(job.host_id))

    # --- waits ---------------------------------------------------------------------------------------------------

    def probe_waiting_hosts(self) -> None:
        """Look at all hosts that are due at once; log in only where the port answers; wake or give up."""
        due = [job for job in _waiting(WaitingOn.HOST) if take_probe(job, timedelta(seconds=settings.PIHERDER_PROBE_SEC))]
        if not due:
            return
        hosts = sorted({job.host_id for job in due if job.host_id is not None})
        answers = registry.gate().port_answers(hosts)
        verdicts: dict[int, str] = {pk: "The host does not answer on its SSH port." for pk in hosts if not answers[pk]}
        knocking = [pk for pk in hosts if answers[pk]]
        if knocking:
            with ThreadPoolExecutor(min(PROBERS, len(knocking))) as pool:
                verdicts |= dict(zip(knocking, pool.map(_try_login, knocking), strict=True))
        limit = host_wait()
        for job in due:
            self._after_probe(job, verdicts.get(job.host_id or 0, ""), limit)

    def _after_probe(self, job: Job, why: str, limit: timedelta) -> None:
        if not why:
            _wake(job)
        elif waited(job) >= limit:
            text = f"{job.where} did not answer for {int(limit.total_seconds() // 60)} min: {why}"
            _end_pending(job, Failure.HOST_UNREACHABLE, text)
        elif why != job.waiting_why:
            Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True).update(waiting_why=why[:300])

    def wake_lock_waiters(self) -> None:
        """Wake the oldest waiter of each host whose fence is free; fail those that waited too long."""
        limit = timedelta(seconds=settings.PIHERDER_LOCK_WAIT_SEC)
        woken = Job.objects.filter(status=Status.PENDING, waiting_on=WaitingOn.WORKER, waiting_since__isnull=False)
        fenced = set(Lane.objects.filter(name=Lane.FENCE).values_list("host_id", flat=True))
        fenced |= set(woken.values_list("host_id", flat=True))
        for job in _waiting(WaitingOn.LOCK):
            if not take_probe(job, LOCK_PROBE):
                continue
            hosts = {job.host_id, job.peer_host_id} - {None}
            if waited(job) >= limit:
                _end_pending(job, Failure.LOCK_TIMEOUT, f"The copy lock was not free in time: {job.waiting_why}")
            elif not hosts & fenced:
                _wake(job)
                fenced |= hosts


def bury(node: WorkerNode, why: str) -> bool:
    """Mark a node dead unless its counter moved meanwhile; True when it was this call that did."""
    silent = WorkerNode.objects.filter(pk=node.pk, dead_at__isnull=True, beats=node.beats)
    done = bool(silent.update(dead_at=timezone.now(), dead_why=why[:200]))
    if done:
        logger.warning("worker %s is dead: %s", node.name, why)
    return done


def end_lost(job: Job, me: Me | None) -> None:
    """The end of a row whose worker is gone: put back where nothing ran, settled or failed where it did. Raises LostClaim."""
    if job.status == Status.PENDING:
        transitions.release_pick_up(job, f"the worker {job.node} was lost before the work began")
        return
    settled = _settled(job, me) if me else None
    if settled is None:
        transitions.end_orphan(job, runner.worker_lost(job.node))


def _settled(job: Job, me: Me) -> bool | None:
    """Ask the host how the work ended, under a new attempt; None when the kind has no such look."""
    try:
        look = registry.settle_of(registry.get(job.kind))
    except registry.UnknownKind:
        return None
    if look is None:
        return None
    attempt = transitions.take_over(job, me)
    transitions.finish(job.pk, attempt, _verdict(look, job))
    return True


def _verdict(look: registry.Settle, job: Job) -> End:
    try:
        found = look(job)
    except (JobFailed, HostDown, HostRefused, StopWork) as error:
        found = JobFailed(str(error))
    if isinstance(found, Summary):
        return End(Status.SUCCEEDED, summary=found.text, result=found.result)
    if isinstance(found, JobFailed):
        return End(Status.FAILED, failure=found.code, error=str(found), result=found.result)
    return runner.worker_lost(job.node)


def hint_is_gone(job: Job, depth: int | None, now: datetime) -> bool:
    """True when the message of a pending row can no longer arrive; `depth` None (broker away) says nothing is known."""
    if depth is None:
        return False
    if job.published_at is None:
        return True
    age = abs(now - job.published_at)  # a clock that was set back must not hide a row
    if age < min(HINT_AGE * 2 ** max(0, job.publishes - 1), LONGEST_HINT_AGE):
        return False
    later = Job.objects.filter(queue=job.queue, published_at__gt=job.published_at, picked_up_at__isnull=False)
    return depth == 0 or later.exists()


def host_wait() -> timedelta:
    """The longest wait for a host, read anew at each probe; the environment locks the field of the settings page."""
    locked = settings.PIHERDER_EXCLUSIVE_HOST_WAIT_SEC
    return timedelta(seconds=locked if locked is not None else EngineSettings.load().host_wait_sec)


def waited(job: Job) -> timedelta:
    """How long a row has waited."""
    return timezone.now() - job.waiting_since if job.waiting_since else timedelta(0)


def is_due(when: datetime, now: datetime) -> bool:
    """True when `when` has come, or lies so far ahead that the clock must have been set back."""
    return when <= now or when - now > timedelta(seconds=4 * settings.PIHERDER_PROBE_SEC)


def take_probe(job: Job, pause: timedelta) -> bool:
    """Win the right to probe a due row by moving its next probe; a clock that jumped moves the wait's start along."""
    now = timezone.now()
    planned = job.next_probe_at or now
    if not is_due(planned, now):
        return False
    fields: dict[str, datetime] = {"next_probe_at": now + pause}
    drift = now - planned
    if job.waiting_since and abs(drift) > 4 * pause:
        fields["waiting_since"] = job.waiting_since + drift
    row = Job.objects.filter(
        pk=job.pk, status=Status.PENDING, attempt__isnull=True, next_probe_at=job.next_probe_at
    )
    won = bool(row.update(**fields))
    if won:
        job.waiting_since = fields.get("waiting_since", job.waiting_since)
    return won


def _waiting(on: WaitingOn) -> Iterable[Job]:
    rows = Job.objects.filter(status=Status.PENDING, waiting_on=on, attempt__isnull=True)
    return rows.select_related("host").order_by("waiting_since", "id")


def _wake(job: Job) -> None:
    """Publish a waiting row: now it waits on a worker, and its wait goes on being counted as one."""
    row = Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True)
    fresh = {"celery_task_id": uuid.uuid4(), "published_at": None, "publishes": 0}
    if row.update(waiting_on=WaitingOn.WORKER, waiting_why="", next_probe_at=None, **fresh):
        tasks.publish(job.pk)


def _end_pending(job: Job, failure: Failure, text: str) -> None:
    with suppress(LostClaim):
        transitions.end_pending(job, End(Status.FAILED, failure=failure, error=text))


def _try_login(host_id: int) -> str:
    """"" when the login works or the host refuses us (the job then says so), else why it is down."""
    try:
        registry.gate().open(host_id, lambda: None).close()
    except HostRefused:
        return ""
    except HostDown as down:
        return str(down)
    finally:
        connection.close()
    return ""
