"""What an open page has seen, as a short text: it changes when the page would, and each minute since times go by."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from django.db.models import Count, Max
from django.utils import timezone

from hosts.models import Host
from jobs.models import ACTIVE, EngineSettings, Job, JobEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosts.glance import Glance
    from piherder.dashboard.recent import Recent

WORK = ("pk", "step", "progress_done", "progress_label", "waiting_on", "next_probe_at")


def now() -> str:
    """Ask for as little as tells whether anything has changed; four queries."""
    event = JobEvent.objects.aggregate(last=Max("pk"))["last"]
    work = list(Job.objects.filter(status__in=ACTIVE).order_by("pk").values_list(*WORK))
    herd = Host.herd.aggregate(
        count=Count("pk"), down=Count("last_error_at"), last=Max("last_error_at"), paused=Max("paused_at")
    )
    return _text(event, work, herd.values(), EngineSettings.load())


def of(found: Recent, hosts: Sequence[Glance], engine: EngineSettings) -> str:
    """The same of what was asked for already."""
    work = [tuple(getattr(job, name) for name in WORK) for job in found.active]
    errors = [at for glance in hosts if (at := glance.host.last_error_at)]
    paused = [at for glance in hosts if (at := glance.host.paused_at)]
    herd = (len(hosts), len(errors), max(errors, default=None), max(paused, default=None))
    return _text(found.event, work, herd, engine)


def _text(event: int | None, work: list[tuple[object, ...]], herd: Iterable[object], engine: EngineSettings) -> str:
    minute = int(timezone.now().timestamp()) // 60
    return f"{zlib.crc32(repr((event or 0, work, *herd, engine.held_at, minute)).encode()):08x}"
