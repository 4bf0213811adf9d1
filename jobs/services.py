"""The two verbs of every door, `request_job` and `request_cancel`, and the switch that holds the herd.

All refusals are `Refused`: one plain sentence, a code, and the job in the way where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from jobs import registry, tasks, transitions
from jobs.admission import Busy, Draft, Unavailable, admit
from jobs.models import ACTIVE, Door, EngineSettings, Job, JobEvent, Status
from jobs.rules import Refused as Refused  # the doors know it from here
from jobs.rules import checked
from jobs.transitions import End, LostClaim

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

    from jobs.registry import Params


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and through which door."""

    door: Door
    user: AbstractBaseUser | AnonymousUser | None = None
    name: str = ""
    client_ip: str | None = None

    @property
    def words(self) -> str:
        """The name to write down."""
        return self.name or (self.user.get_username() if self.user else "") or str(self.door)


@dataclass(frozen=True, slots=True)
class Requested:
    """The job that answers a request; `attached` when it was there already."""

    job: Job
    attached: bool


def request_job(
    kind: str,
    host_id: int | None = None,
    params: Params | None = None,
    *,
    asker: Asker,
    then: dict[str, Any] | None = None,
    fire_id: int | None = None,
) -> Requested:
    """Insert a job, or attach to the equal one that is active. Raises Refused."""
    family, cleaned = checked(kind, host_id, params or {})
    user_id = getattr(asker.user, "pk", None)
    draft = Draft(
        family,
        host_id,
        cleaned,
        door=asker.door,
        user_id=user_id,
        user_name=asker.words,
        client_ip=asker.client_ip,
        then=then,
        fire_id=fire_id,
        lanes=family.lanes_of(host_id, cleaned),
        time_limit=family.limit_of(host_id, cleaned),
    )
    try:
        job, attached = admit(draft)
    except Busy as busy:
        raise Refused(str(busy), "busy", busy.job) from None
    except Unavailable as busy:
        raise Refused(str(busy), "unavailable") from None
    if attached:
        JobEvent.objects.create(job=job, name="attached", text=f"{asker.words} asked for the same work")
    return Requested(job, attached)


def request_cancel(job: Job, *, asker: Asker) -> str:
    """Cancel a job; returns one sentence that says what happens now. Raises Refused when it is over."""
    job.refresh_from_db()
    if not job.is_active:
        raise Refused(f"Job {job.pk} is over ({job.state_words.lower()}); there is nothing to cancel.", "over", job)
    if job.status == Status.RUNNING and not _may_be_cancelled(job):
        raise Refused(f"Job {job.pk} ({job.kind}) cannot be cancelled once it runs; it ends by itself.", "invalid", job)
    if _ended_at_once(job, asker):
        transaction.on_commit(lambda: tasks.revoke(job), robust=True)
        return f"Job {job.pk} is cancelled; it had not started."
    try:
        transitions.ask_cancel(job, asker.words)
    except LostClaim:
        job.refresh_from_db()
        if job.cancel_requested_at is None or not job.is_active:  # it ended, or went back to waiting, meanwhile
            return request_cancel(job, asker=asker)
    return f"Job {job.pk} is being cancelled: it ends when no process of it is left."


def _may_be_cancelled(job: Job) -> bool:
    family = registry.find(job.kind)
    return family is None or family.cancellable


def _ended_at_once(job: Job, asker: Asker) -> bool:
    if job.status != Status.PENDING or job.attempt is not None:
        return False
    end = End(Status.CANCELLED, summary=f"Cancelled by {asker.words} before it started.")
    try:
        transitions.end_pending(job, end)
    except LostClaim:  # a worker was faster: it reads the flag
        return False
    return True


def run_again(job: Job, *, asker: Asker) -> Requested:
    """Request the same work anew. Raises Refused."""
    return request_job(job.kind, job.host_id, job.params, asker=asker, then=job.then)


def hold(reason: str, *, asker: Asker) -> None:
    """Hold the herd: nothing new starts, no schedule fires, running work ends by itself."""
    values = {"held_at": timezone.now(), "held_by": asker.words, "hold_reason": reason[:200]}
    EngineSettings.objects.update_or_create(pk=1, defaults=values)


def release() -> int:
    """Release the herd; returns the number of jobs that were waiting for it."""
    EngineSettings.objects.update_or_create(pk=1, defaults={"held_at": None, "held_by": "", "hold_reason": ""})
    return Job.objects.filter(status=Status.PENDING).count()


def active_jobs(host_id: int | None = None) -> list[Job]:
    """Jobs that have not ended, oldest first; of one host where given."""
    jobs = Job.objects.filter(status__in=ACTIVE).select_related("host").order_by("id")
    return list(jobs.filter(host_id=host_id) if host_id is not None else jobs)
