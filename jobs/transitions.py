"""Every transition of a job: a conditional UPDATE naming the old status and the attempt, and its event with it."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from jobs import follow_up, hints
from jobs.models import ACTIVE, Failure, Job, JobEvent, Lane, Status, WaitingOn
from jobs.words import one_line, storable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from jobs.node import Me
    from jobs.registry import Params

logger = logging.getLogger(__name__)
CLEARED: dict[str, Any] = {"attempt": None, "boot": None}
NOT_WAITING: dict[str, Any] = {
    "waiting_on": WaitingOn.NOTHING,
    "waiting_why": "",
    "waiting_since": None,
    "next_probe_at": None,
}


WAITED = "waiting on "


class LostClaim(Exception):
    """The row is no longer ours: stop the work and write nothing."""


@dataclass(frozen=True, slots=True)
class End:
    """How a job ends."""

    status: Status
    summary: str = ""
    failure: str = Failure.NONE
    error: str = ""
    result: Params = field(default_factory=dict)


def _move(
    job_id: int,
    where: Q,
    to: dict[str, Any],
    event: str,
    text: str = "",
    attempt: uuid.UUID | None = None,
    node: str | None = None,
) -> None:
    """Raises LostClaim when no row matched. Must run inside a transaction. `node`: the row's, where it is known."""
    if not Job.objects.filter(where, pk=job_id).update(**to):
        raise LostClaim(f"Job {job_id} is no longer in the state this step needs.")
    if node is None:
        node = Job.objects.filter(pk=job_id).values_list("node", flat=True).get()
    JobEvent.objects.create(job_id=job_id, name=event, text=text, node=node, attempt=attempt)


def pick_up(job_id: int, me: Me, attempt: uuid.UUID | None = None) -> uuid.UUID:
    """Make the pending row ours and return the attempt's id. Raises LostClaim when another has it or it ended.

    Who may have to ask twice brings the `attempt`, and knows by it a first call that went through unheard.
    """
    attempt = attempt or uuid.uuid4()
    now = timezone.now()
    with transaction.atomic():
        where = Q(status=Status.PENDING, attempt__isnull=True, cancel_requested_at__isnull=True)
        to = {"attempt": attempt, "boot": me.boot, "node": me.name, "picked_up_at": now}
        _move(job_id, where, to, "picked up", attempt=attempt, node=me.name)
    return attempt


def defer(job: Job, on: WaitingOn, why: str, pause: timedelta) -> None:
    """Pending and picked up by nobody → hinted at again after `pause`, without having been picked up.

    One event when what it waits for changes. Raises LostClaim when the row is no longer as `job` was read.
    """
    as_read = Q(waiting_on=job.waiting_on, waiting_why=job.waiting_why)
    where = Q(status=Status.PENDING, attempt__isnull=True) & as_read
    again = {"next_probe_at": timezone.now() + pause, "published_at": None, "publishes": 0}
    to = {"waiting_on": on, "waiting_why": why, **again}
    with transaction.atomic():
        if (job.waiting_on, job.waiting_why) != (on, why):
            _move(job.pk, where, to, f"{WAITED}{on}", why, node=job.node)
        else:
            Job.objects.filter(where, pk=job.pk).update(**to)


def claim(job_id: int, attempt: uuid.UUID) -> None:
    """Pending → running. Raises LostClaim when the row was cancelled or taken away meanwhile."""
    with transaction.atomic():
        where = Q(status=Status.PENDING, attempt=attempt, cancel_requested_at__isnull=True)
        # `waiting_since` stays: work that then says "not yet" goes on with the same wait.
        no_wait = {key: value for key, value in NOT_WAITING.items() if key != "waiting_since"}
        to = {"status": Status.RUNNING, "started_at": timezone.now(), **no_wait}
        _move(job_id, where, to, "running", attempt=attempt)


def take_fence(job_id: int, attempt: uuid.UUID, hosts: Iterable[int]) -> None:
    """The fence row of each host for the row that `attempt` has picked up; all or none.

    Raises LostClaim when the row was taken away or ended meanwhile, IntegrityError when another job has a fence there.
    """
    with transaction.atomic():
        if _locked(job_id, Q(status=Status.PENDING, attempt=attempt)) is None:
            raise LostClaim(f"Job {job_id} was taken away.")
        Lane.objects.bulk_create([Lane(name=Lane.FENCE, host_id=pk, job_id=job_id, attempt=attempt) for pk in hosts])


def put_back(job_id: int, attempt: uuid.UUID, on: WaitingOn, why: str, pause: timedelta) -> None:
    """Undo a pick-up, or a claim after which nothing was done: the row waits, its lanes stay, its slot is free.

    A cancel that came meanwhile ends it. Raises LostClaim.
    """
    now, why = timezone.now(), one_line(why)[:300]
    mine = Q(attempt=attempt, status__in=ACTIVE)
    with transaction.atomic():
        row = _locked(job_id, mine)  # or a cancel that comes between this look and the write would be lost
        if row is None:
            raise LostClaim(f"Job {job_id} was taken away.")
        Lane.objects.filter(job_id=job_id, name=Lane.FENCE, attempt=attempt).delete()
        if row.cancel_requested_at:
            _end(row, mine, cancelled_by(row))
            return
        # A wait for a worker lies within the wait for what the job was woken from.
        goes_on = row.waiting_since and (on == WaitingOn.WORKER or _last_wait(job_id) == on)
        to = {
            **CLEARED,
            "status": Status.PENDING,
            "started_at": None,
            "step": "",
            "waiting_on": on,
            "waiting_why": why,
            "waiting_since": row.waiting_since if goes_on else now,
            "next_probe_at": now + pause,
            "published_at": None,
            "publishes": 0,
        }
        changed = row.waiting_on != on or row.waiting_why != why
        if changed:
            _move(job_id, mine, to, f"{WAITED}{on or 'queue'}", why)
        else:  # a wait that goes on is one event, not one per probe
            Job.objects.filter(mine, pk=job_id).update(**to)


def _locked(job_id: int, where: Q) -> Job | None:
    """The row, kept from change until the transaction ends (SQLite keeps the whole file)."""
    return Job.objects.select_for_update().filter(where, pk=job_id).first()


def _last_wait(job_id: int) -> str:
    """What the job waited on last, other than a worker; "" when it never did."""
    waits = JobEvent.objects.filter(job_id=job_id, name__startswith=WAITED).exclude(name=f"{WAITED}{WaitingOn.WORKER}")
    name = waits.order_by("-id").values_list("name", flat=True).first() or WAITED
    return name.removeprefix(WAITED)


def cancelled_by(job: Job) -> End:
    """The end of a job that was cancelled before it ran."""
    return End(Status.CANCELLED, summary=f"Cancelled by {job.cancelled_by or 'an operator'} before it started.")


def finish(job_id: int, attempt: uuid.UUID, end: End) -> None:
    """Running → ended, by the attempt that ran it. Raises LostClaim when it is no longer ours."""
    with transaction.atomic():
        job = Job.objects.filter(pk=job_id).first()
        if job is None:
            raise LostClaim(f"Job {job_id} was deleted.")
        _end(job, Q(status=Status.RUNNING, attempt=attempt), end, attempt)


def fail_attempt(job_id: int, attempt: uuid.UUID, end: End) -> None:
    """Picked up → ended without having run (login refused, unknown kind). Raises LostClaim."""
    with transaction.atomic():
        _end(Job.objects.get(pk=job_id), Q(status=Status.PENDING, attempt=attempt), end, attempt)


def end_pending(job: Job, end: End) -> None:
    """Pending and picked up by nobody → ended. Raises LostClaim when somebody has it."""
    with transaction.atomic():
        _end(job, Q(status=Status.PENDING, attempt__isnull=True), end)


def end_orphan(job: Job, end: End) -> None:
    """Running on a boot that is gone → ended; the node's name stays. Raises LostClaim when it moved."""
    with transaction.atomic():
        _end(job, Q(status=Status.RUNNING, attempt=job.attempt, boot=job.boot), end, job.attempt)


def release_pick_up(job: Job, why: str) -> None:
    """Picked up by a boot that is gone, never claimed → pending and published anew: nothing ran. Raises LostClaim."""
    with transaction.atomic():
        where = Q(status=Status.PENDING, attempt=job.attempt, boot=job.boot)
        row = _locked(job.pk, where)
        if row is None:
            raise LostClaim(f"Job {job.pk} is no longer picked up by the worker that was lost.")
        Lane.objects.filter(job=job, name=Lane.FENCE, attempt=job.attempt).delete()
        if row.cancel_requested_at:
            _end(row, where, cancelled_by(row))
            return
        to = {**CLEARED, "celery_task_id": uuid.uuid4(), "published_at": None, "publishes": 0}
        _move(job.pk, where, to, "put back", why)
        hints.send(job.pk)


def ask_cancel(job: Job, by: str) -> None:
    """Set the flag that the work reads every 2 s. Raises LostClaim when nobody is there to read it, or it is set."""
    with transaction.atomic():
        where = Q(status__in=ACTIVE, attempt__isnull=False, cancel_requested_at__isnull=True)
        to = {"cancel_requested_at": timezone.now(), "cancelled_by": by}
        _move(job.pk, where, to, "cancel requested", f"by {by}", job.attempt)


def take_over(job: Job, me: Me) -> uuid.UUID:
    """Running on a dead boot → running under an attempt of ours, so that its end can be settled. Raises LostClaim."""
    attempt = uuid.uuid4()
    with transaction.atomic():
        where = Q(status=Status.RUNNING, attempt=job.attempt, boot=job.boot)
        _move(job.pk, where, {"attempt": attempt, "boot": me.boot}, "settling", "asking the host", attempt)
        Lane.objects.filter(job=job, name=Lane.FENCE).update(attempt=attempt)
    return attempt


def _end(job: Job, where: Q, end: End, attempt: uuid.UUID | None = None) -> None:
    to: dict[str, Any] = {
        "status": end.status,
        "finished_at": timezone.now(),
        "summary": storable(end.summary)[:500],
        "failure": end.failure,
        "error": storable(end.error),
        "result": end.result,
        **NOT_WAITING,
    }
    # Whose attempt it is, is in `where`: then the node that `job` was read with is still the row's.
    node = job.node if attempt else None
    _move(job.pk, where, to, str(end.status), storable(end.error or end.summary), attempt, node)
    Lane.objects.filter(job_id=job.pk).delete()
    if end.status == Status.SUCCEEDED and job.then:
        _start_next(job)


def _start_next(job: Job) -> None:
    """Insert the job that follows, in the transaction that ends this one; whatever keeps it out is an event.

    Raises the errors of a database that is away: then this job's own end was not written either and is tried again.
    """
    try:
        with transaction.atomic():
            text = follow_up.insert(job)
    except (OperationalError, InterfaceError):
        raise
    except Exception as reason:
        if connection.needs_rollback:  # the database went away under it, whatever that was taken for on the way here
            raise OperationalError("the database went away while a follow-up was inserted") from reason
        text = f"Not started: {_why_not(job, reason)}"
    JobEvent.objects.create(job_id=job.pk, name="then", text=storable(text), node=job.node)


def _why_not(job: Job, reason: Exception) -> str:
    """Why nothing follows; a fault of ours must not cost the end of work that is done."""
    if isinstance(reason, follow_up.NotInserted):
        return str(reason)
    logger.error("job %s: what follows cannot be started", job.pk, exc_info=reason)
    return f"a fault in PiHerder ({type(reason).__name__}: {reason})."
