"""Schedules and their fires for tests."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from jobs import schedules
from jobs.models import ScheduleFire

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
_numbers = itertools.count(1)


def make_schedule(wish: dict[str, Any] | None = None, *, cron: str = "", zone: str = "", **fields: Any) -> PeriodicTask:
    """A schedule of jobs: by a cron line, else every ten minutes; `last_run_at` and the like by name."""
    if cron:
        rhythm: dict[str, Any] = {"crontab": schedules.crontab_row(cron, zone)}
    else:
        rhythm = {"interval": IntervalSchedule.objects.get_or_create(every=10, period="minutes")[0]}
    row = PeriodicTask.objects.create(
        name=f"schedule {next(_numbers)}",
        task=schedules.SCHEDULE,
        kwargs=json.dumps(wish or {"kind": "chore"}),
        **rhythm,
    )
    # By update, as the model's own save sets the moment of the last edit to now.
    changes = {"date_changed": datetime(2026, 1, 1, tzinfo=UTC), **fields}
    PeriodicTask.objects.filter(pk=row.pk).update(**changes)
    row.refresh_from_db()
    return row


def make_fire(schedule: PeriodicTask | None = None, **fields: Any) -> ScheduleFire:
    """A fire of a schedule, due now."""
    return ScheduleFire.objects.create(schedule=schedule or make_schedule(), **{"due_at": timezone.now(), **fields})


def fired(wish: dict[str, Any]) -> ScheduleFire:
    """The fire of a schedule with this wish."""
    make_schedule(wish, last_run_at=NOON)
    (fire,) = schedules.run_due(NOON + timedelta(minutes=10))
    return fire
