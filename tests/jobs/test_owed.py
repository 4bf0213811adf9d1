"""What a schedule missed while its host was away or paused is made up for, once."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import services
from jobs.admission import Unavailable
from jobs.models import Door, Failure, Job, ScheduleFire, Status
from jobs.owed import make_up
from jobs.schedules import resume_fires, run_due
from jobs.services import Asker
from tests.factories import change, make_job, running_on
from tests.jobs.schedule_rows import NOON, fired, make_fire, make_schedule

if TYPE_CHECKING:
    from hosts.models import Host
    from jobs.node import Me
    from tests.jobs.gate import FakeGate

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
    fire = make_fire(make_schedule({"kind": "copy", "host_id": host.pk}), owed=[host.pk])
    blocker = make_job("wide", host)
    assert make_up() == []
    change(blocker, status=Status.FAILED, finished_at=timezone.now()).lanes.all().delete()
    assert [job.fire_id for job in make_up()] == [fire.pk]


def test_a_run_that_met_a_busy_lane_is_owed(host: Host) -> None:
    make_job("wide", host)
    assert fired({"kind": "copy", "host_id": host.pk}).owed == [host.pk]


def test_a_run_that_met_a_job_which_is_being_cancelled_is_owed_and_made_up_for(host: Host, me: Me) -> None:
    dying = change(running_on(me, make_job("copy", host, {"tag": ""})), cancel_requested_at=timezone.now())
    fire = fired({"kind": "copy", "host_id": host.pk})
    ScheduleFire.objects.update(fired_at=timezone.now())  # the schedules of these tests fire at a fixed noon
    assert (fire.owed, make_up()) == ([host.pk], [])
    change(dying, status=Status.CANCELLED, finished_at=timezone.now()).lanes.all().delete()
    assert [job.fire_id for job in make_up()] == [fire.pk]


def test_a_run_that_the_database_would_not_take_is_owed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(draft: object) -> None:
        raise Unavailable

    monkeypatch.setattr(services, "admit", unavailable)
    assert fired({"kind": "copy", "host_id": host.pk}).owed == [host.pk]


def test_what_reads_only_is_not_owed(paused: Host) -> None:
    assert fired({"kind": "look", "host_id": paused.pk}).owed == []


def test_a_debt_of_a_kind_that_does_not_catch_up_is_dropped(host: Host) -> None:
    make_fire(make_schedule({"kind": "look", "host_id": host.pk}), owed=[host.pk])
    assert make_up() == []
    assert not ScheduleFire.objects.exclude(owed=[]).exists()


def test_only_the_newest_fire_of_a_schedule_owes(paused: Host) -> None:
    schedule = make_schedule({"kind": "copy", "host_id": paused.pk}, last_run_at=NOON)
    other = make_fire(make_schedule(enabled=False), owed=[paused.pk])
    fires = [fire for day in range(1, 4) for fire in run_due(NOON + timedelta(days=day))]
    owing = ScheduleFire.objects.exclude(owed=[])
    assert (len(fires), set(owing)) == (3, {fires[-1], other})
    assert schedule.fires.count() == 3


def test_a_fire_that_is_carried_on_late_clears_no_newer_debt(paused: Host) -> None:
    schedule = make_schedule({"kind": "copy", "host_id": paused.pk})
    late = make_fire(schedule, ended_at=None)
    newer = make_fire(schedule, owed=[paused.pk], ended_at=timezone.now())
    resume_fires()
    assert set(ScheduleFire.objects.exclude(owed=[])) == {late, newer}


def test_a_paused_host_is_asked_for_once_a_round(paused: Host, gate: FakeGate, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        make_fire(make_schedule({"kind": "copy", "host_id": paused.pk}), owed=[paused.pk])
    asked: list[int] = []

    def ask(host_id: int) -> str:
        asked.append(host_id)
        return "It is paused."

    monkeypatch.setattr(gate, "paused", ask)
    make_up()
    assert asked == [paused.pk]


def test_a_run_since_then_settles_the_debt(host: Host) -> None:
    make_fire(make_schedule({"kind": "copy", "host_id": host.pk}), owed=[host.pk])
    make_job("copy", host)
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
