"""Beat dies in mid fire: the stand-by leads, and each due time starts one job."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from jobs import schedules
from jobs.models import BeatLease, Job, ScheduleFire, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.herd import Herd
    from tests.faults.process import Process

pytestmark = pytest.mark.fault


@pytest.fixture
def overdue(herd: Herd) -> Iterator[PeriodicTask]:
    """A schedule of every 30 minutes whose last run was an hour ago; enabled by the test."""
    every, _ = IntervalSchedule.objects.get_or_create(every=30, period=IntervalSchedule.MINUTES)
    past = timezone.now() - timedelta(hours=1)
    wish = json.dumps({"kind": "sleep", "params": herd.complete("sleep", {})})
    schedule = PeriodicTask.objects.create(
        name="nightly", task=schedules.SCHEDULE, interval=every, kwargs=wish, enabled=False
    )
    PeriodicTask.objects.filter(pk=schedule.pk).update(last_run_at=past, date_changed=past)
    yield schedule
    PeriodicTask.objects.filter(pk=schedule.pk).delete()


def leader(herd: Herd, *beats: Process) -> Process:
    """The one whose log says that it leads now."""
    herd.until(lambda: any("this beat leads now" in beat.output for beat in beats), "one leads")
    return next(beat for beat in beats if "this beat leads now" in beat.output)


def enable(schedule: PeriodicTask) -> None:
    """From now on it is due."""
    PeriodicTask.objects.filter(pk=schedule.pk).update(enabled=True)


def fired_once(herd: Herd, schedule: PeriodicTask) -> Job:
    """The one job of its one fire, ended."""
    herd.until(lambda: Job.objects.filter(fire__schedule=schedule).exists(), "it fired")
    job = herd.ended(Job.objects.get(fire__schedule=schedule))
    assert ScheduleFire.objects.filter(schedule=schedule).count() == 1
    return job


def test_two_beats_fire_once(herd: Herd, overdue: PeriodicTask) -> None:
    herd.worker()
    first, second = herd.schedulers("one", "two")
    leader(herd, first, second)
    enable(overdue)
    assert fired_once(herd, overdue).status == Status.SUCCEEDED


def test_the_stand_by_takes_over(herd: Herd, overdue: PeriodicTask) -> None:
    herd.worker()
    first, second = herd.schedulers("one", "two")
    leads = leader(herd, first, second)
    leads.kill()
    enable(overdue)
    assert fired_once(herd, overdue).status == Status.SUCCEEDED
    assert leader(herd, second if leads is first else first).running


@pytest.mark.parametrize("point", ["fire:opened", "publish:before", "publish:after"])
def test_killed_in_mid_fire(herd: Herd, overdue: PeriodicTask, point: str) -> None:
    herd.worker()
    first, second = herd.schedulers("one", "two")
    leads = leader(herd, first, second)
    herd.order(point, "self")
    enable(overdue)
    leads.wait()
    assert fired_once(herd, overdue).status == Status.SUCCEEDED
    assert len(herd.attempts(Job.objects.get(fire__schedule=overdue))) == 1


def test_a_frozen_leader_does_not_fire_when_it_wakes(herd: Herd, overdue: PeriodicTask) -> None:
    herd.worker()
    first, second = herd.schedulers("one", "two")
    leads = leader(herd, first, second)
    holder = BeatLease.objects.get(pk=1).holder
    leads.freeze()
    herd.until(lambda: BeatLease.objects.exclude(holder=holder).exists(), "the other leads")
    enable(overdue)
    leads.thaw()
    assert fired_once(herd, overdue).status == Status.SUCCEEDED
    assert BeatLease.objects.get(pk=1).holder != holder
