"""A scheduled long copy that may not start yet is deferred before it is picked up: no attempt, no event per try."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from jobs import slots, transitions
from jobs.models import Job, Status, WaitingOn
from jobs.transitions import LostClaim
from tests.factories import change, events, make_host, make_job, running_on
from tests.jobs.running import run
from tests.jobs.schedule_rows import make_fire

if TYPE_CHECKING:
    from hosts.models import Host
    from jobs.node import Me
    from tests.jobs.gate import FakeGate

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other(me: Me) -> Job:
    """One of the worker's two slots is taken."""
    return running_on(me, make_job("work", make_host()))


@pytest.fixture
def copy(host: Host, other: Job) -> Job:
    return change(make_job("copy", host, fire_id=make_fire().pk), published_at=timezone.now(), publishes=1)


def test_it_waits_without_having_been_picked_up(copy: Job, gate: FakeGate) -> None:
    job = run(copy)
    assert (job.waiting_on, job.waiting_why) == (WaitingOn.WORKER, slots.KEPT_FREE)
    assert (job.picked_up_at, job.attempt, job.node, gate.probed) == (None, None, "", [])
    assert events(job) == ["requested", "waiting on worker"]


def test_many_tries_are_one_event(copy: Job) -> None:
    for _ in range(4):
        run(copy)
    assert events(copy) == ["requested", "waiting on worker"]


def test_it_is_hinted_at_again_in_fifteen_seconds(copy: Job) -> None:
    job = run(copy)
    assert (job.published_at, job.publishes) == (None, 0)
    pause = (job.next_probe_at or timezone.now()) - timezone.now()
    assert timedelta(seconds=13) < pause <= slots.PAUSE


def test_it_starts_once_the_slot_is_free(copy: Job, other: Job) -> None:
    run(copy)
    change(other, status=Status.SUCCEEDED, finished_at=timezone.now())
    assert run(copy).status == Status.SUCCEEDED


def test_of_two_that_saw_the_same_free_slot_one_goes_back(copy: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "deferred", lambda job, me: False)
    job = run(copy)
    assert (job.status, job.waiting_why, job.attempt) == (Status.PENDING, slots.KEPT_FREE, None)


def test_a_row_that_moved_meanwhile_is_not_deferred(copy: Job, me: Me) -> None:
    seen = Job.objects.get(pk=copy.pk)
    transitions.pick_up(copy.pk, me)
    with pytest.raises(LostClaim):
        transitions.defer(seen, WaitingOn.WORKER, slots.KEPT_FREE, slots.PAUSE)
    assert events(copy) == ["requested", "picked up"]


def test_a_kind_that_no_longer_exists_is_picked_up_to_say_so(copy: Job, me: Me) -> None:
    assert not slots.deferred(change(copy, kind="gone"), me)
