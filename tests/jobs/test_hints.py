"""A message that got lost is sent again, at a growing distance; what nobody started in time expires."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import sweeper, tasks
from jobs.models import EngineSettings, Failure, Job, Status, WaitingOn
from jobs.sweeper import Sweeper
from jobs.waits import hint_is_gone
from tests.factories import (
    change,
    make_job,
    picked_up_by,
    waiting_on,
)
from tests.jobs.looks import again, ago, queue, state

if TYPE_CHECKING:
    from datetime import datetime

    from hosts.models import Host
    from jobs.node import Me

pytestmark = pytest.mark.django_db


def hinted_at(job: Job, published: Any, publishes: int = 1) -> Job:
    return change(job, published_at=published, publishes=publishes)


def test_a_hint_that_was_never_sent_is_sent(host: Host) -> None:
    # case H06
    job = make_job("work", host)
    Sweeper().tend()
    assert (queue(), again(job).publishes) == (1, 1)
    assert job.published_at


def test_a_fresh_hint_is_not_sent_again(host: Host) -> None:
    hinted_at(make_job("work", host), timezone.now())
    Sweeper().tend()
    assert queue() == 0


def test_a_queue_that_was_emptied_is_filled_again_once(host: Host) -> None:
    # case H06
    hinted_at(make_job("work", host), ago(seconds=31))
    watch = Sweeper()
    watch.tend()
    watch.tend()
    assert queue() == 1


@pytest.mark.parametrize(
    ("age", "publishes", "gone"),
    [(29, 1, 0), (31, 1, 1), (31, 2, 0), (61, 2, 1), (1799, 99, 0), (1801, 99, 1), (1801, 10_000, 1)],
)
def test_the_pause_between_two_hints_doubles(host: Host, age: int, publishes: int, gone: int) -> None:
    now = timezone.now()
    job = hinted_at(make_job("work", host), now - timedelta(seconds=age), publishes)
    assert hint_is_gone(job, 0, now) is bool(gone)


def test_a_message_that_still_waits_in_the_queue_is_not_gone(host: Host) -> None:
    now = timezone.now()
    job = hinted_at(make_job("work", host), now - timedelta(hours=1))
    assert not hint_is_gone(job, 5, now)


def test_a_message_that_others_overtook_is_gone(host: Host) -> None:
    now = timezone.now()
    job = hinted_at(make_job("work", host), now - timedelta(hours=1))
    change(make_job("look", host), published_at=now, picked_up_at=now + timedelta(seconds=1))
    assert hint_is_gone(job, 5, now)


def test_a_row_that_was_put_back_and_hinted_again_overtook_nobody(host: Host) -> None:
    now = timezone.now()
    job = hinted_at(make_job("work", host), now - timedelta(hours=1))
    change(make_job("look", host), published_at=now, picked_up_at=now - timedelta(hours=2))
    assert not hint_is_gone(job, 5, now)


@pytest.mark.parametrize("published", [None, ago(hours=1)])
def test_of_many_sweepers_that_found_a_hint_gone_one_sends_it(host: Host, published: Any) -> None:
    job = hinted_at(make_job("work", host), published)
    seen = [Job.objects.get(pk=job.pk) for _ in range(3)]
    assert [tasks.publish_row(row) for row in seen] == [True, False, False]
    assert (queue(), again(job).publishes) == (1, 2)


def test_a_hint_that_another_sweeper_sent_meanwhile_is_not_sent_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("work", host)

    def another_was_faster(job: Job, depth: int | None, now: datetime) -> bool:
        return tasks.publish(job.pk)

    monkeypatch.setattr(sweeper, "hint_is_gone", another_was_faster)
    Sweeper().tend()
    assert queue() == 1


def test_a_clock_that_was_set_back_hides_no_row(host: Host) -> None:
    now = timezone.now()
    assert hint_is_gone(hinted_at(make_job("work", host), now + timedelta(hours=3)), 0, now)


def test_without_a_broker_nothing_is_known(host: Host, redis_away: object) -> None:
    job = make_job("work", host)
    assert not hint_is_gone(job, tasks.queue_depths({"celery"})["celery"], timezone.now())
    Sweeper().tend()
    assert again(job).publishes == 0


def test_a_kind_that_expires_is_hinted_once(host: Host) -> None:
    make_job("brief", host)
    Sweeper().tend()
    assert queue() == 0


@pytest.mark.parametrize("why", ["held", "paused"])
def test_what_may_not_start_is_not_hinted(host: Host, why: str) -> None:
    make_job("work", host)
    if why == "held":
        EngineSettings.objects.create(pk=1, held_at=timezone.now())
    else:
        type(host).objects.update(paused_at=timezone.now())
    Sweeper().tend()
    assert queue() == 0


def test_a_job_that_waits_for_a_free_slot_is_hinted_when_due(host: Host) -> None:
    job = waiting_on(WaitingOn.WORKER, make_job("copy", host), next_probe_at=ago(seconds=-4))
    Sweeper().tend()
    assert queue() == 0
    change(job, next_probe_at=ago(seconds=1))
    Sweeper().tend()
    assert queue() == 1


@pytest.mark.parametrize(("age", "end"), [(119, (Status.PENDING, "")), (121, (Status.FAILED, Failure.EXPIRED))])
def test_a_kind_may_expire(host: Host, age: int, end: tuple[str, str]) -> None:
    job = change(make_job("brief", host), created_at=ago(seconds=age))
    Sweeper().tend()
    assert state(job) == end


def test_work_that_was_picked_up_does_not_expire(host: Host, me: Me) -> None:
    job = change(picked_up_by(me, make_job("brief", host)), created_at=ago(hours=1))
    Sweeper().tend()
    assert again(job).status == Status.PENDING
