"""B after A: the job that A's row asks for, inserted by the transaction that ends A as succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs import registry, rules
from jobs.admission import Busy, Draft, Unavailable, admit
from jobs.models import Door
from jobs.registry import UnknownKind

if TYPE_CHECKING:
    from jobs.models import Job


class NotInserted(Exception):
    """The follow-up was refused; the text says why."""


def insert(job: Job) -> str:
    """Insert `job.then` ({"kind", "params", "host_id"}; the host defaults to the job's own). Raises NotInserted."""
    try:
        follower, _ = admit(_draft(job))
    except (UnknownKind, Busy, Unavailable, rules.Refused) as refusal:
        raise NotInserted(str(refusal)) from refusal
    return f"Started job {follower.pk} ({follower.kind})."


def _draft(job: Job) -> Draft:
    """The request behind `job.then`, checked as at any door. Raises UnknownKind and Refused."""
    wish = job.then or {}
    kind = wish["kind"]
    host_id = wish.get("host_id", job.host_id) if registry.get(kind).needs_host else None
    family, params = rules.checked(kind, host_id, wish.get("params") or {})
    return Draft(
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
