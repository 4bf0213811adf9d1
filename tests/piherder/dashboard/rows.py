"""Jobs as the page meets them."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from hosts.glance import glances_with
from hosts.standing import scheduled
from jobs.models import Job, JobEvent, Status
from piherder.dashboard.needs import needs
from piherder.dashboard.recent import recent
from tests.factories import change, make_job

if TYPE_CHECKING:
    from hosts.models import Host
    from piherder.dashboard.needs import Need


def past(
    kind: str, host: Host | None, *, ago: timedelta, lasted: timedelta = timedelta(minutes=5),
    status: Status = Status.SUCCEEDED, **fields: Any,
) -> Job:  # fmt: skip
    """A job that began so long ago and has ended."""
    job = make_job(kind, host)
    job.lanes.all().delete()
    begun = timezone.now() - ago
    JobEvent.objects.create(job=job, name=status)
    return change(
        job, status=status, created_at=begun, started_at=begun, finished_at=begun + lasted, attempt=uuid.uuid4(),
        boot=uuid.uuid4(), **fields,
    )  # fmt: skip


def failed(kind: str, host: Host | None, *, hours: float = 1, error: str = "It broke.", **fields: Any) -> Job:
    """One that failed so long ago."""
    return past(kind, host, ago=timedelta(hours=hours), status=Status.FAILED, error=error, **fields)


def asked(*, held: bool = False) -> list[Need]:
    """What needs a person now."""
    found = recent()
    return list(needs(glances_with(found.active), found, list(scheduled()), held=held).shown)


def said(*, held: bool = False) -> list[str]:
    """The same as level, subject and words."""
    return [f"{need.level} {need.subject}: {need.words}" for need in asked(held=held)]
