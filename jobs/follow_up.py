"""B after A: the job that A's row asks for, inserted by the transaction that ends A as succeeded."""

from __future__ import annotations

from jobs import registry
from jobs.admission import Busy, Draft, Unavailable, admit
from jobs.models import Door, Job
from jobs.registry import UnknownKind


class NotInserted(Exception):
    """The follow-up was refused; the text says why."""


def insert(job: Job) -> str:
    """Insert `job.then` ({"kind", "params", "host_id"}; the host defaults to the job's own). Raises NotInserted."""
    wish = job.then or {}
    host_id = wish.get("host_id", job.host_id)
    params = wish.get("params") or {}
    try:
        family = registry.get(wish["kind"])
        draft = Draft(
            family,
            host_id,
            params,
            door=Door.THEN,
            user_id=job.requested_by_id,
            user_name=job.requested_name,
            then=wish.get("then"),
            lanes=family.lanes_of(host_id, params),
            time_limit=family.limit_of(host_id, params),
        )
        follower, _ = admit(draft)
    except (UnknownKind, Busy, Unavailable) as refusal:
        raise NotInserted(str(refusal)) from refusal
    return f"Started job {follower.pk} ({follower.kind})."
