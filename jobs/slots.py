"""Scheduled long copies leave a slot of their worker to what a person starts."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from jobs import registry, transitions
from jobs.models import ACTIVE, Job, Status, WaitingOn, WorkerNode
from jobs.registry import UnknownKind
from jobs.transitions import LostClaim

if TYPE_CHECKING:
    from jobs.node import Me
    from jobs.registry import Family

KEPT_FREE = "A slot is kept free for work that a person starts."
PAUSE = timedelta(seconds=15)


def deferred(job: Job, me: Me) -> bool:
    """True when the row has to wait for a slot; it then was not picked up, or each try would cost a pick-up."""
    with suppress(UnknownKind):
        if not is_free(job, registry.get(job.kind), me):
            with suppress(LostClaim):
                transitions.defer(job, WaitingOn.WORKER, KEPT_FREE, PAUSE)
            return True
    return False


def is_free(job: Job, family: Family, me: Me) -> bool:
    """True when the job may take a slot: a scheduled long copy only while another of this worker stays free."""
    if not (family.leaves_a_slot and job.fire_id):
        return True
    slots = WorkerNode.objects.filter(pk=me.boot).values_list("slots", flat=True).first() or 1
    reserved = min(settings.PIHERDER_RESERVED_SLOTS, slots - 1)
    others = Job.objects.filter(boot=me.boot, status__in=ACTIVE, attempt__isnull=False).exclude(pk=job.pk)
    before_me = sum(1 for other in others if other.status == Status.RUNNING or other.pk < job.pk)
    return before_me < slots - reserved
