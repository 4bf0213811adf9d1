"""What keeps nothing stuck: passes over nodes, rows and waits, each change by compare-and-set.

Any number of sweepers do no harm: each change names what it saw. A sweep reads a few small indexes and writes only
when it found something. Silence is measured with the sweeper's own monotonic clock.
"""

from __future__ import annotations

import functools
import logging
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import F, Q
from django.utils import timezone

from jobs import registry, tasks, transitions
from jobs.losses import bury, end_lost, look_of
from jobs.models import TERMINAL, EngineSettings, Failure, Job, Lane, Status, WaitingOn, WorkerNode
from jobs.registry import HostDown, HostRefused
from jobs.transitions import End, LostClaim
from jobs.waits import NO_JUMP, Clocks, hint_is_gone, host_wait, is_due, stand_still, take_probe, waited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobs.node import Me

logger = logging.getLogger(__name__)
PERIOD = 2.0  # seconds between two passes
LOCK_PROBE = timedelta(seconds=2)
PROBERS = 8


@dataclass(slots=True)
class Sweeper:
    """Passes over the whole herd, made by every worker and every beat. `me` is None in beat.

    `writes` is True while this process's own small writes reach the database. Who can read but not write (another
    writer holds SQLite's lock) sees counters that rest although their workers live.
    """

    me: Me | None = None
    active_jobs: Callable[[], set[int]] = set  # jobs that this worker's pool carries now
    writes: Callable[[], bool] = lambda: True
    seen: dict[uuid.UUID, tuple[int, float]] = field(default_factory=dict)
    missing: dict[bool, dict[int, uuid.UUID | None]] = field(default_factory=dict)
    last_look: float | None = None
    clocks: Clocks = field(default_factory=Clocks)

    def sweep(self, now: float | None = None) -> None:
        """One pass of everything at the monotonic second `now`."""
        self.watch(now)
        self.tend()

    def watch(self, now: float | None = None) -> None:
        """The part that speaks to the database alone: dead workers are found although hosts are slow to answer."""
        moment = time.monotonic() if now is None else now
        _each(lambda: self.bury_silent_nodes(moment), *self._lost_rows(looks=False))

    def tend(self) -> None:
        """The part that may speak to hosts and to the broker."""
        jump = self.clocks.jump()
        _each(*self._lost_rows(looks=True), self.drop_stale_fences, self.expire, self.refuse_removed_hosts)
        if not EngineSettings.load().held:
            waits = (functools.partial(self.probe_waiting_hosts, jump), functools.partial(self.wake_lock_waiters, jump))
            _each(*waits, self.publish_lost_hints)

    def lost_contact(self) -> None:
        """The database did not answer or took no write: silence seen meanwhile counts for nothing."""
        self.last_look = None
        self.seen.clear()

    def _lost_rows(self, *, looks: bool) -> list[Callable[[], None]]:
        passes: list[Callable[[], None]] = [lambda: self.settle_orphans(looks=looks)]
        if self.me:
            passes.append(functools.partial(self.report_missing, self.me, looks=looks))
        return passes

    # --- nodes ---------------------------------------------------------------------------------------------------

    def bury_silent_nodes(self, now: float) -> None:
        """Mark nodes dead whose counter has not moved for so long, all of it in unbroken contact with the database.

        A sweeper that did not look for a while (frozen, or its machine was) knows nothing of that time.
        """
        silence = settings.PIHERDER_SILENCE_SEC
        if not self.writes():
            self.lost_contact()
            return
        if self.last_look is not None and now - self.last_look > max(silence / 2, 3 * PERIOD):
            self.lost_contact()
        self.last_look = now
        alive = WorkerNode.objects.filter(dead_at__isnull=True)
        for node in alive.exclude(pk=self.me.boot) if self.me else alive:
            beats, since = self.seen.get(node.boot, (-1, now))
            if beats != node.beats:
                self.seen[node.boot] = (node.beats, now)
            elif now - since >= silence:
                bury(node, f"silent for {now - since:.0f} s")

    def settle_orphans(self, *, looks: bool) -> None:
        """End or put back the rows of boots that are dead or gone; `looks`: those whose host is asked first."""
        alive = WorkerNode.objects.filter(dead_at__isnull=True).values("boot")
        orphans = Job.objects.filter(boot__isnull=False, status__in=(Status.PENDING, Status.RUNNING))
        for job in orphans.exclude(boot__in=alive):
            if bool(look_of(job)) is looks:
                with suppress(LostClaim):
                    end_lost(job, self.me)

    def report_missing(self, me: Me, *, looks: bool) -> None:
        """Rows of this boot that its pool no longer carries, seen so in two sweeps, are lost."""
        rows = Job.objects.filter(boot=me.boot, status__in=(Status.PENDING, Status.RUNNING), attempt__isnull=False)
        carried = self.active_jobs()
        missing = {job.pk: job for job in rows if job.pk not in carried and bool(look_of(job)) is looks}
        before = self.missing.get(looks, {})
        for pk, job in missing.items():
            if before.get(pk) == job.attempt:
                with suppress(LostClaim):
                    end_lost(job, me)
        self.missing[looks] = {pk: job.attempt for pk, job in missing.items()}

    def drop_stale_fences(self) -> None:
        """Remove fences of attempts that are over: whoever set one froze, or lost the database, before the undoing."""
        over = Q(job__status__in=TERMINAL) | Q(job__attempt__isnull=True) | ~Q(attempt=F("job__attempt"))
        stale = Lane.objects.filter(over, name=Lane.FENCE)
        if stale.exists():
            logger.warning("%d stale fences removed", stale.delete()[0])

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

    def refuse_removed_hosts(self) -> None:
        """Fail rows that came in at the very moment in which their host was removed: nothing would start them."""
        gone = Q(host__removed_at__isnull=False) | Q(peer_host__removed_at__isnull=False)
        rows = Job.objects.filter(gone, status=Status.PENDING, attempt__isnull=True)
        for job in rows.select_related("host", "peer_host"):
            place = job.peer_host if job.host is None or job.host.removed_at is None else job.host
            _end_pending(job, Failure.REFUSED, f"{place} was removed: add it again first.")

    def publish_lost_hints(self) -> None:
        """Publish pending rows whose message is gone; the pause between two tries doubles.

        Kinds that expire are asked for once: whoever wants them still asks again.
        """
        fleeting = [family.kind for family in registry.kinds() if family.expires]
        queued = Job.objects.filter(
            status=Status.PENDING, attempt__isnull=True, waiting_on__in=(WaitingOn.NOTHING, WaitingOn.WORKER)
        )
        rows = [job for job in queued.exclude(kind__in=fleeting).order_by("id") if self._due(job)]
        if not rows:
            return
        depths = tasks.queue_depths({job.queue for job in rows})
        for job in rows:
            if hint_is_gone(job, depths.get(job.queue), timezone.now()) and not self._paused(job):
                tasks.publish_row(job)

    def _due(self, job: Job) -> bool:
        return job.next_probe_at is None or is_due(job.next_probe_at, timezone.now())

    def _paused(self, job: Job) -> bool:
        return job.host_id is not None and bool(registry.gate().paused(job.host_id))

    # --- waits ---------------------------------------------------------------------------------------------------

    def probe_waiting_hosts(self, jump: timedelta = NO_JUMP) -> None:
        """Look at all hosts that are due at once; log in only where the port answers; wake or give up."""
        pause = timedelta(seconds=settings.PIHERDER_PROBE_SEC)
        due = [job for job in _not_paused(_waiting(WaitingOn.HOST)) if take_probe(job, pause, jump)]
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
        elif self._is_over(job, limit):
            text = f"{job.where} did not answer for {_lasting(limit)}: {why}"
            _end_pending(job, Failure.HOST_UNREACHABLE, text)
        elif why != job.waiting_why:
            Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True).update(waiting_why=why[:300])

    def _is_over(self, job: Job, limit: timedelta) -> bool:
        """True when a wait lasted too long; a clock that jumped in mid sweep moves the wait's start instead."""
        late = self.clocks.jumped_since()
        if waited(job) - late >= limit:
            return True
        if late and job.waiting_since:
            moved = {"waiting_since": job.waiting_since + late, "next_probe_at": timezone.now() + LOCK_PROBE}
            Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True).update(**moved)
        return False

    def wake_lock_waiters(self, jump: timedelta = NO_JUMP) -> None:
        """Wake the oldest waiter of each host whose fence is free; fail those that waited too long.

        A waiter that cannot start keeps its hosts from younger ones, or one that needs two hosts would starve.
        """
        limit = timedelta(seconds=settings.PIHERDER_LOCK_WAIT_SEC)
        copies = [family.kind for family in registry.kinds() if family.mutex]
        woken = Job.objects.filter(
            status=Status.PENDING, waiting_on=WaitingOn.WORKER, waiting_since__isnull=False, kind__in=copies
        )
        fenced: set[int | None] = set(Lane.objects.filter(name=Lane.FENCE).values_list("host_id", flat=True))
        fenced |= set(woken.values_list("host_id", flat=True))
        for job in _not_paused(_waiting(WaitingOn.LOCK)):
            hosts = {job.host_id, job.peer_host_id} - {None}
            due = take_probe(job, LOCK_PROBE, jump)
            if due and self._is_over(job, limit):
                _end_pending(job, Failure.LOCK_TIMEOUT, f"The copy lock was not free in time: {job.waiting_why}")
                continue
            if due and not hosts & fenced:
                _wake(job)
            fenced |= hosts


def _waiting(on: WaitingOn) -> Iterable[Job]:
    rows = Job.objects.filter(status=Status.PENDING, waiting_on=on, attempt__isnull=True)
    return rows.select_related("host").order_by("waiting_since", "id")


def _not_paused(jobs: Iterable[Job]) -> Iterator[Job]:
    """Those whose host is not paused, and those that are not due; the wait of the others stands still."""
    paused = functools.cache(registry.gate().paused)
    pause = timedelta(seconds=settings.PIHERDER_PROBE_SEC)
    for job in jobs:
        due = job.next_probe_at is None or is_due(job.next_probe_at, timezone.now())
        if due and job.host_id is not None and paused(job.host_id):
            stand_still(job, pause)
        else:
            yield job


def _wake(job: Job) -> None:
    """Publish a waiting row: now it waits on a worker, and its wait goes on being counted as one."""
    row = Job.objects.filter(pk=job.pk, status=Status.PENDING, attempt__isnull=True)
    fresh = {"celery_task_id": uuid.uuid4(), "published_at": None, "publishes": 0}
    if row.update(waiting_on=WaitingOn.WORKER, waiting_why="", next_probe_at=None, **fresh):
        tasks.publish(job.pk)


def _lasting(time: timedelta) -> str:
    """ "45 s", "30 min"."""
    seconds = int(time.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


def _end_pending(job: Job, failure: Failure, text: str) -> None:
    with suppress(LostClaim):
        transitions.end_pending(job, End(Status.FAILED, failure=failure, error=text))


def _try_login(host_id: int) -> str:
    """ "" when the login works or the host refuses us (the job then says so), else why it is down."""
    try:
        registry.gate().open(host_id, lambda: None).close()
    except HostRefused:
        return ""
    except HostDown as down:
        return str(down)
    except Exception:  # a fault of ours: the job that is woken meets it and shows it
        logger.exception("host %s: the login broke", host_id)
    finally:
        connection.close()
    return ""


def _each(*passes: Callable[[], None]) -> None:
    """Make all passes: a fault in one must not keep the others from their work. Raises DatabaseError."""
    for one in passes:
        try:
            one()
        except DatabaseError:
            raise
        except Exception:
            logger.exception("a pass of the sweeper broke")
