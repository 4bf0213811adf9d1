"""Runs that schedules owe: missed while their host was away or paused, or while the herd was held; made up for once."""

from __future__ import annotations

import functools
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from jobs import registry
from jobs.models import Door, EngineSettings, Failure, Job, ScheduleFire, Status
from jobs.registry import UnknownKind
from jobs.schedules import OWED, Wish
from jobs.services import Asker, Refused, request_job

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)
KEEP_OWED = timedelta(days=30)


def make_up() -> list[Job]:
    """Start what is owed: runs missed while their host was away or paused, once each, when the host is there again."""
    if EngineSettings.load().held:
        return []
    return [*_make_up_paused(), *_make_up_unreachable()]


def _make_up_paused() -> list[Job]:
    started, paused = [], functools.cache(registry.gate().paused)  # a host is asked for once, however many owe it a run
    recent = ScheduleFire.objects.exclude(owed=[]).filter(fired_at__gt=timezone.now() - KEEP_OWED)
    for fire in recent.select_related("schedule"):
        still = []
        for host_id in fire.owed:
            job, owed = _owed(fire, host_id, paused)
            started += [job] if job else []
            still += [host_id] if owed else []
        if still != fire.owed:
            ScheduleFire.objects.filter(pk=fire.pk).update(owed=still)
    return started


def _owed(fire: ScheduleFire, host_id: int | None, paused: Callable[[int], str]) -> tuple[Job | None, bool]:
    """The job that makes up for a host's run, and whether the run is owed further."""
    try:
        wish = Wish.of(fire.schedule)
        catches_up = registry.get(wish.kind).catch_up
    except (ValueError, KeyError, TypeError, UnknownKind):  # edited since into something that cannot be read
        return None, False
    if not catches_up:
        return None, False
    if host_id is not None and paused(host_id):
        return None, True
    if Job.objects.filter(kind=wish.kind, host=host_id, created_at__gt=fire.fired_at).exists():
        return None, False
    return _again(wish.kind, host_id, wish.params, fire)


def _make_up_unreachable() -> list[Job]:
    started = []
    missed = Job.objects.filter(
        kind__in=[family.kind for family in registry.kinds() if family.catch_up],
        status=Status.FAILED,
        failure=Failure.HOST_UNREACHABLE,
        fire__isnull=False,
        finished_at__gt=timezone.now() - KEEP_OWED,
    )
    for job in missed.select_related("fire__schedule").order_by("-id"):
        newer = Job.objects.filter(kind=job.kind, host=job.host, pk__gt=job.pk).exists()
        assert job.host_id is not None
        assert job.finished_at is not None
        assert job.fire is not None
        if not newer and registry.gate().seen_since(job.host_id, job.finished_at):
            again, _ = _again(job.kind, job.host_id, job.params, job.fire)
            started += [again] if again else []
    return started


def _again(kind: str, host_id: int | None, params: dict[str, Any], fire: ScheduleFire) -> tuple[Job | None, bool]:
    asker = Asker(Door.SCHEDULE, name=f"missed run of {fire.schedule.name}"[:150])
    try:
        return request_job(kind, host_id, params, asker=asker, fire_id=fire.pk).job, False
    except Refused as refusal:
        logger.info("the missed run of %s was not started: %s", fire.schedule.name, refusal)
        return None, refusal.code in OWED
