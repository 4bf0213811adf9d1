"""How a job gets in: row and lanes are inserted first, the database decides, and a refusal names who is in the way."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from jobs import hints, registry
from jobs.models import ACTIVE, Door, Job, JobEvent, Lane, Status, WaitingOn

if TYPE_CHECKING:
    from jobs.registry import Family, Params

TURNS = 3


@dataclass(frozen=True, slots=True)
class Draft:
    """A request that passed the door: what shall be done, where, and who asked."""

    family: Family
    host_id: int | None
    params: Params
    door: Door = Door.COMMAND
    user_id: int | None = None
    user_name: str = ""
    client_ip: str | None = None
    peer_host_id: int | None = None
    then: dict[str, Any] | None = None
    fire_id: int | None = None
    lanes: tuple[str, ...] = field(default=())
    time_limit: timedelta = timedelta(hours=2)

    @property
    def digest(self) -> str:
        """Hash of the parameters: equal requests have equal digests."""
        text = json.dumps(self.params, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class Busy(Exception):
    """A job that is already there is in the way of this one; `job` is the other one."""

    def __init__(self, draft: Draft, job: Job) -> None:
        place = f" on {job.where}" if job.where else ""
        state = job.state_words.lower()
        super().__init__(f"{draft.family.label} cannot start: job {job.pk} ({job.kind}{place}) is {state}.")
        self.job = job


class Unavailable(Exception):
    """The database would not take the row in time."""

    def __init__(self) -> None:
        super().__init__("The database is busy: try again in a moment.")


def admit(draft: Draft) -> tuple[Job, bool]:
    """Insert a job with its lanes, or attach to the equal one that is there; returns (job, attached).

    Raises Busy when another job holds a lane or the equal one is being cancelled, Unavailable when the database was
    locked twice.
    """
    locked = 0
    for _ in range(TURNS):
        try:
            return _insert(draft), False
        except IntegrityError:
            other = in_the_way(draft)
        except OperationalError:
            locked += 1
            if locked > 1:
                raise Unavailable from None
            continue
        if other is None:  # it ended between our insert and our look
            continue
        if _equal(draft, other) and other.cancel_requested_at is None:
            return other, True
        raise Busy(draft, other)
    raise Unavailable


def _insert(draft: Draft) -> Job:
    family = draft.family
    now = timezone.now()
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '2s'")
        job = Job(
            kind=family.kind,
            host_id=draft.host_id,
            peer_host_id=draft.peer_host_id,
            params=draft.params,
            params_digest=draft.digest,
            exclusive=family.exclusive,
            queue=family.queue,
            time_limit=draft.time_limit,
            then=draft.then,
            fire_id=draft.fire_id,
            requested_by_id=draft.user_id,
            requested_name=draft.user_name,
            door=draft.door,
            client_ip=draft.client_ip,
            created_at=now,
        )
        asleep = _starts_asleep(draft)
        if asleep:
            job.waiting_on, job.waiting_since, job.next_probe_at = WaitingOn.HOST, now, now
        job.save(force_insert=True)
        Lane.objects.bulk_create(_lane_rows(draft, job))
        JobEvent.objects.create(job=job, name="requested", text=f"by {draft.user_name or draft.door}")
        if asleep:
            JobEvent.objects.create(job=job, name="waiting on host", text="the last contact with the host failed")
        else:
            hints.send(job.pk)
    return job


def _starts_asleep(draft: Draft) -> bool:
    """True when the host was down at its last contact or another job waits for it: such a job takes no slot."""
    if draft.host_id is None or not draft.family.reaches:
        return False
    waiting = Job.objects.filter(host_id=draft.host_id, status=Status.PENDING, waiting_on=WaitingOn.HOST)
    return registry.gate().looks_down(draft.host_id) or waiting.exists()


def _lane_rows(draft: Draft, job: Job) -> list[Lane]:
    """Ordered by (host, name), so that two requests meet at the same lane first and never deadlock."""
    hosts = sorted({draft.host_id, draft.peer_host_id} - {None}, key=lambda pk: pk or 0) or [None]
    return [Lane(name=name, host_id=host, job=job) for host in hosts for name in sorted(draft.lanes)]


def in_the_way(draft: Draft) -> Job | None:
    """The oldest active job that keeps `draft` out; None when nobody does any more."""
    held = Q(lanes__name__in=draft.lanes)
    if draft.host_id is None:
        held &= Q(lanes__host__isnull=True)
    else:
        held &= Q(lanes__host__in=[draft.host_id, draft.peer_host_id or draft.host_id])
        held |= Q(kind=draft.family.kind, host=draft.host_id, exclusive=True)
    return Job.objects.filter(held, status__in=ACTIVE).select_related("host").order_by("id").first()


def _equal(draft: Draft, job: Job) -> bool:
    return (job.kind, job.host_id, job.params_digest) == (draft.family.kind, draft.host_id, draft.digest)
