"""Whether a job works on a host now."""

from __future__ import annotations

from django.db.models import Q

from jobs.models import Job, Status


def at_work(host_id: int, *lanes: str) -> bool:
    """True while a job that holds one of these lanes runs or is picked up; one that waits for its turn does not count,
    since it may wait for days.
    """
    begun = Q(status=Status.RUNNING) | Q(status=Status.PENDING, attempt__isnull=False)
    return Job.objects.filter(begun, host_id=host_id, lanes__name__in=lanes).exists()
