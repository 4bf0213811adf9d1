"""What a restored database is told: nothing of then is under way, nothing fires before the operator releases."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from jobs import mutex, node, owed, runner, schedules, services
from jobs.models import BeatLease, EngineSettings, Failure, Job, Lane, ScheduleFire, Status, WaitingOn, WorkerNode
from jobs.mutex import HostMutex
from jobs.schedules import ensure
from jobs.sweeper import Sweeper
from piherder.archive.aftermath import SENTENCE, settle
from tests.factories import change, events, fence, make_host, make_job, make_node, picked_up_by, running_on, waiting_on
from tests.hosts.families.conftest import ASKER

pytestmark = pytest.mark.django_db(transaction=True)


def bring_back() -> int:
    """What a restore does with the rows."""
    return settle("herder-x.tar", ASKER)


def four() -> list[Job]:
    """A job in each state that is active."""
    me = make_node()
    states = [
        running_on(me, make_job("host_facts", make_host())),
        picked_up_by(me, make_job("host_facts", make_host())),
    ]
    fence(states[0])
    waiting = waiting_on(WaitingOn.HOST, make_job("backup", make_host()))
    return [*states, waiting, make_job("retention")]


def test_every_active_job_ends_in_words_and_frees_its_lanes() -> None:
    jobs = four()
    assert bring_back() == 4
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.error, events(job)[-1]) == (Status.FAILED, SENTENCE, "failed")
    assert [job.failure for job in jobs] == [Failure.WORKER_LOST, *[Failure.EXPIRED] * 3]
    assert not Lane.objects.exists()


def test_the_job_that_made_the_archive_has_made_it() -> None:
    job = running_on(make_node(), make_job("herder_backup"))
    change(job, then={"kind": "retention", "host_id": None, "params": {}})
    waiting = make_job("backup", make_host())
    assert bring_back() == 2
    job.refresh_from_db()
    assert (job.status, job.failure, job.error, events(job)[-1]) == (Status.SUCCEEDED, "", "", "succeeded")
    assert job.summary == "Made herder-x.tar, which this herder was restored from."
    waiting.refresh_from_db()
    assert (waiting.status, Job.objects.count()) == (Status.FAILED, 2)


def test_a_backup_of_the_herder_that_had_not_begun_made_nothing() -> None:
    job = make_job("herder_backup")
    bring_back()
    job.refresh_from_db()
    assert (job.status, job.error) == (Status.FAILED, SENTENCE)


def test_ended_jobs_stay_as_they_are() -> None:
    job = change(make_job("retention"), status=Status.SUCCEEDED, finished_at=timezone.now(), summary="done")
    assert bring_back() == 0
    job.refresh_from_db()
    assert (job.status, job.summary, job.error) == (Status.SUCCEEDED, "done", "")


def test_what_would_follow_an_active_job_does_not() -> None:
    change(make_job("retention"), then={"kind": "host_facts", "host_id": make_host().pk, "params": {}})
    bring_back()
    assert Job.objects.count() == 1


def test_the_hold_stands_and_every_door_says_why() -> None:
    bring_back()
    assert EngineSettings.load().hold_reason == "restored from herder-x.tar"
    with pytest.raises(services.Refused, match=r"on hold \(restored from herder-x.tar\)"):
        services.request_job("retention", asker=ASKER)


def test_workers_beat_and_sessions_of_then_are_gone() -> None:
    make_node()
    BeatLease.objects.create(pk=1, holder=uuid.uuid4(), name="pi")
    Session.objects.create(session_key="k" * 32, session_data="x", expire_date=timezone.now() + timedelta(days=1))
    bring_back()
    assert not WorkerNode.objects.filter(dead_at__isnull=True).exists()
    assert (BeatLease.objects.get().holder, Session.objects.count()) == (None, 0)


def a_week_ago() -> PeriodicTask:
    """A daily schedule that ran last a week ago, with a run that it owes and one that it was about to carry out."""
    row = ensure("Backups", {"kind": "backup", "hosts": "all"}, cron="0 1 * * *")
    then = timezone.now() - timedelta(days=7)
    PeriodicTask.objects.filter(pk=row.pk).update(last_run_at=then, date_changed=then)
    fire = {"due_at": then, "fired_at": timezone.now()}
    ScheduleFire.objects.create(schedule=row, owed=[make_host().pk], ended_at=then, **fire)
    ScheduleFire.objects.create(schedule=ensure("Retention", {"kind": "retention"}, cron="0 1 * * *"), **fire)
    row.refresh_from_db()
    return row


def test_schedules_stay_and_make_up_for_nothing_after_the_release() -> None:
    a_week_ago()
    bring_back()
    services.release()
    schedules.resume_fires()
    assert (schedules.run_due(), owed.make_up()) == ([], [])
    assert not Job.objects.exists()


def test_schedules_fire_again_at_their_next_time() -> None:
    row = ensure("Retention", {"kind": "retention"}, cron="30 3 * * *")
    bring_back()
    services.release()
    (fire,) = schedules.run_due(timezone.now() + timedelta(days=1, minutes=1))
    assert (fire.schedule_id, fire.started) == (row.pk, 1)


def test_messages_and_mutexes_of_then_do_not_matter() -> None:
    job = running_on(make_node(), make_job("backup", host := make_host()))
    assert job.attempt is not None
    assert HostMutex.of([host.pk], job.pk, job.attempt).take() == ""
    bring_back()
    node.become("new@pi")
    runner.run(job.pk)
    job.refresh_from_db()
    assert job.status == Status.FAILED
    assert HostMutex.of([host.pk], job.pk + 1, uuid.uuid4()).take() == "", "the old key is stale and goes"
    mutex.client().flushdb()


def test_a_sweep_finds_nothing_left_to_do() -> None:
    four()
    bring_back()
    before = list(Job.objects.order_by("pk").values_list("status", "error"))
    Sweeper().sweep()
    assert list(Job.objects.order_by("pk").values_list("status", "error")) == before
