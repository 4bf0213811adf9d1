"""What a schedule missed while its host was away or paused is made up for, once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import services
from jobs.models import Door, Failure, Job, ScheduleFire, Status
from jobs.owed import make_up
from jobs.services import Asker
from tests.factories import change, make_job, running_on
from tests.jobs.schedule_rows import fired, make_fire, make_schedule

if TYPE_CHECKING:
    from hosts.models import Host
    from jobs.node import Me

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def paused(host: Host) -> Host:
    type(host).objects.update(paused_at=timezone.now())
    return host


def resume(host: Host) -> None:
    type(host).objects.update(paused_at=None)


def test_a_paused_host_is_owed_its_run(paused: Host) -> None:
    fire = fired({"kind": "copy", "host_id": paused.pk})
    assert (fire.owed, Job.objects.count()) == ([paused.pk], 0)
    assert make_up() == []


def test_what_was_missed_in_a_pause_is_made_up_for_once(paused: Host) -> None:
    for _ in range(3):
        make_fire(make_schedule({"kind": "copy", "host_id": paused.pk}), owed=[paused.pk])
    resume(paused)
    (job,) = make_up()
    assert (job.kind, job.host_id, job.door) == ("copy", paused.pk, Door.SCHEDULE)
    assert make_up() == []
    assert not ScheduleFire.objects.exclude(owed=[]).exists()


def test_what_is_owed_stays_owed_while_a_lane_is_busy(host: Host) -> None:
    fire = make_fire(make_schedule({"kind": "look", "host_id": host.pk}), owed=[host.pk])
    blocker = make_job("wide", host)
    assert make_up() == []
    change(blocker, status=Status.FAILED, finished_at=timezone.now()).lanes.all().delete()
    assert [job.fire_id for job in make_up()] == [fire.pk]


def test_a_run_since_then_settles_the_debt(host: Host) -> None:
    make_fire(make_schedule({"kind": "look", "host_id": host.pk}), owed=[host.pk])
    make_job("look", host)
    assert make_up() == []


def test_a_debt_of_a_schedule_that_cannot_be_read_is_dropped(host: Host) -> None:
    make_fire(make_schedule(kwargs="{"), owed=[host.pk])
    assert make_up() == []
    assert not ScheduleFire.objects.exclude(owed=[]).exists()


def test_a_held_herd_is_owed_and_made_up_for_after(host: Host) -> None:
    services.hold("", asker=Asker(Door.PAGE))
    assert fired({"kind": "copy", "host_id": host.pk}).owed == [host.pk]
    assert make_up() == []
    services.release()
    ScheduleFire.objects.update(fired_at=timezone.now())
    assert len(make_up()) == 1


def unreachable(host: Host, kind: str = "copy", **fields: Any) -> Job:
    job = make_job(kind, host, fire_id=make_fire().pk)
    end = {"status": Status.FAILED, "failure": Failure.HOST_UNREACHABLE, "finished_at": timezone.now(), **fields}
    change(job, **end).lanes.all().delete()
    return job


def seen(host: Host) -> None:
    type(host).objects.update(last_seen=timezone.now() + MINUTE)


def test_a_copy_missed_while_the_host_was_off_is_made_up_for_once(host: Host) -> None:
    unreachable(host)
    assert make_up() == []
    seen(host)
    assert [job.host_id for job in make_up()] == [host.pk]
    assert make_up() == []


def test_a_kind_that_does_not_catch_up_does_not(host: Host) -> None:
    unreachable(host, "look")
    seen(host)
    assert make_up() == []


def test_a_person_s_job_is_not_repeated(host: Host) -> None:
    unreachable(host, fire=None)
    seen(host)
    assert make_up() == []


def test_a_newer_run_stands_for_the_missed_one(host: Host, me: Me) -> None:
    unreachable(host)
    running_on(me, make_job("copy", host))
    seen(host)
    assert make_up() == []
