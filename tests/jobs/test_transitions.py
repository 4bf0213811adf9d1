"""Each transition names what it saw; one that saw something else writes nothing at all."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from jobs import transitions
from jobs.models import Failure, Job, JobEvent, Lane, Status, WaitingOn
from jobs.transitions import End, LostClaim
from tests.factories import change, events, fence, make_job, make_node, picked_up_by, running_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.models import Host
    from jobs.node import Me

SOON = timedelta(seconds=5)
GOOD = End(Status.SUCCEEDED, summary="Done.", result={"n": 1})
BAD = End(Status.FAILED, failure=Failure.ERROR, error="No.")


@pytest.fixture
def job(host: Host) -> Job:
    return make_job("copy", host)


def test_a_pick_up_names_the_worker_and_leaves_the_row_pending(job: Job, me: Me) -> None:
    attempt = transitions.pick_up(job.pk, me)
    job.refresh_from_db()
    assert (job.status, job.attempt, job.boot, job.node) == (Status.PENDING, attempt, me.boot, me.name)
    assert job.picked_up_at


def test_two_cannot_pick_up_one_job(job: Job, me: Me) -> None:
    transitions.pick_up(job.pk, me)
    with pytest.raises(LostClaim):
        transitions.pick_up(job.pk, make_node("w2@pi"))
    assert events(job) == ["requested", "picked up"]


def test_a_claim_starts_the_work(job: Job, me: Me) -> None:
    picked_up_by(me, job)
    transitions.claim(job.pk, job.attempt or uuid.uuid4())
    job.refresh_from_db()
    assert job.status == Status.RUNNING
    assert job.started_at


LOST: list[Callable[[Job, uuid.UUID], Any]] = [
    lambda job, attempt: transitions.take_fence(job.pk, attempt, [job.host_id or 0]),
    lambda job, attempt: transitions.claim(job.pk, attempt),
    lambda job, attempt: transitions.put_back(job.pk, attempt, WaitingOn.HOST, "down", SOON),
    lambda job, attempt: transitions.finish(job.pk, attempt, GOOD),
    lambda job, attempt: transitions.fail_attempt(job.pk, attempt, BAD),
    lambda job, attempt: transitions.end_pending(job, BAD),
    lambda job, attempt: transitions.release_pick_up(change_in_memory(job, attempt), "lost"),
    lambda job, attempt: transitions.end_orphan(change_in_memory(job, attempt), BAD),
    lambda job, attempt: transitions.take_over(change_in_memory(job, attempt), transitions_me(job)),
]


def change_in_memory(job: Job, attempt: uuid.UUID) -> Job:
    job.attempt = attempt
    return job


def transitions_me(job: Job) -> Me:
    return make_node(f"late-{job.pk}@pi")


@pytest.mark.parametrize("late", LOST)
@pytest.mark.parametrize("state", [picked_up_by, running_on])
def test_a_foreign_attempt_writes_nothing(job: Job, me: Me, late: Any, state: Callable[[Me, Job], Job]) -> None:
    state(me, job)
    fence(job)
    before = Job.objects.filter(pk=job.pk).values().get()
    with pytest.raises(LostClaim):
        late(Job.objects.get(pk=job.pk), uuid.uuid4())
    assert Job.objects.filter(pk=job.pk).values().get() == before
    assert (events(job), Lane.objects.count()) == (["requested"], 2)


@pytest.mark.parametrize("end", [GOOD, BAD, End(Status.CANCELLED)])
def test_an_end_is_final(job: Job, me: Me, end: End) -> None:
    running_on(me, job)
    attempt = job.attempt or uuid.uuid4()
    transitions.finish(job.pk, attempt, end)
    with pytest.raises(LostClaim):
        transitions.finish(job.pk, attempt, GOOD)
    job.refresh_from_db()
    assert job.status == end.status


def test_an_end_frees_lanes_and_fence_and_keeps_the_worker(job: Job, me: Me) -> None:
    fence(running_on(me, job))
    transitions.finish(job.pk, job.attempt or uuid.uuid4(), GOOD)
    job.refresh_from_db()
    assert not Lane.objects.exists()
    assert (job.node, job.summary, job.result) == (me.name, "Done.", {"n": 1})
    assert job.finished_at


def test_an_event_that_fails_takes_its_transition_back(job: Job, me: Me, monkeypatch: pytest.MonkeyPatch) -> None:
    running_on(me, job)

    def full(**_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(JobEvent.objects, "create", full)
    with pytest.raises(InterruptedError):
        transitions.finish(job.pk, job.attempt or uuid.uuid4(), GOOD)
    job.refresh_from_db()
    assert (job.status, job.lanes.count()) == (Status.RUNNING, 1)


def test_a_put_back_keeps_the_lanes_and_frees_the_fence(job: Job, me: Me) -> None:
    fence(picked_up_by(me, job))
    transitions.put_back(job.pk, job.attempt or uuid.uuid4(), WaitingOn.HOST, "The host is down.", SOON)
    job.refresh_from_db()
    assert (job.waiting_on, job.waiting_why, job.attempt) == (WaitingOn.HOST, "The host is down.", None)
    assert [lane.name for lane in job.lanes.all()] == ["backup"]
    assert job.node == me.name


def put_back(job: Job, me: Me, on: WaitingOn, why: str = "down") -> Job:
    picked_up_by(me, job)
    transitions.put_back(job.pk, job.attempt or uuid.uuid4(), on, why, SOON)
    job.refresh_from_db()
    return job


def test_a_wait_that_goes_on_is_counted_from_its_beginning(job: Job, me: Me) -> None:
    first = put_back(job, me, WaitingOn.HOST).waiting_since
    change(job, waiting_on=WaitingOn.WORKER)  # woken, and down again
    assert put_back(job, me, WaitingOn.HOST).waiting_since == first


@pytest.mark.parametrize("before", [WaitingOn.LOCK, WaitingOn.WORKER])
def test_a_wait_for_something_else_begins_anew(job: Job, me: Me, before: WaitingOn) -> None:
    hours_ago = timezone.now() - timedelta(hours=2)
    put_back(job, me, before)
    change(job, waiting_on=WaitingOn.WORKER, waiting_since=hours_ago)
    assert (put_back(job, me, WaitingOn.HOST).waiting_since or hours_ago) > hours_ago


def test_a_wait_for_a_slot_lies_within_the_wait_for_the_host(job: Job, me: Me) -> None:
    first = put_back(job, me, WaitingOn.HOST).waiting_since
    change(job, waiting_on=WaitingOn.WORKER)  # woken, no slot is free, and down again
    assert put_back(job, me, WaitingOn.WORKER, "no slot").waiting_since == first
    assert put_back(job, me, WaitingOn.HOST).waiting_since == first


def test_a_wait_that_goes_on_is_one_event(job: Job, me: Me) -> None:
    for _ in range(3):
        put_back(job, me, WaitingOn.LOCK)
    assert events(job).count("waiting on lock") == 1


def test_work_that_had_not_begun_goes_on_with_its_wait(job: Job, me: Me) -> None:
    first = put_back(job, me, WaitingOn.LOCK, "a lock on the host").waiting_since
    picked_up_by(me, job)
    transitions.claim(job.pk, job.attempt or uuid.uuid4())
    transitions.put_back(job.pk, job.attempt or uuid.uuid4(), WaitingOn.LOCK, "still", SOON)
    job.refresh_from_db()
    assert (job.waiting_since, job.status, job.started_at) == (first, Status.PENDING, None)


def test_a_cancel_ends_a_job_that_is_put_back(job: Job, me: Me) -> None:
    picked_up_by(me, job)
    transitions.ask_cancel(job, "ann")
    transitions.put_back(job.pk, job.attempt or uuid.uuid4(), WaitingOn.HOST, "down", SOON)
    job.refresh_from_db()
    assert (job.status, job.summary) == (Status.CANCELLED, "Cancelled by ann before it started.")


def test_a_cancel_ends_a_job_whose_worker_was_lost_before_it_began(job: Job, me: Me) -> None:
    seen_before = picked_up_by(me, job)
    transitions.ask_cancel(Job.objects.get(pk=job.pk), "ann")
    transitions.release_pick_up(seen_before, "lost")
    job.refresh_from_db()
    assert job.status == Status.CANCELLED


def test_a_flag_is_set_only_where_an_attempt_reads_it(job: Job) -> None:
    with pytest.raises(LostClaim):
        transitions.ask_cancel(job, "ann")
    job.refresh_from_db()
    assert job.cancel_requested_at is None


def test_a_cancelled_job_cannot_be_claimed(job: Job, me: Me) -> None:
    picked_up_by(me, job)
    transitions.ask_cancel(job, "ann")
    with pytest.raises(LostClaim):
        transitions.claim(job.pk, job.attempt or uuid.uuid4())


def test_a_released_pick_up_is_hinted_under_a_new_message(
    job: Job, me: Me, hinted: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    old = picked_up_by(me, job).celery_task_id
    with django_capture_on_commit_callbacks(execute=True):
        transitions.release_pick_up(job, "lost")
    job.refresh_from_db()
    assert (hinted, job.attempt) == ([job.pk], None)
    assert job.celery_task_id != old


def test_a_take_over_moves_the_fence_along(job: Job, me: Me) -> None:
    fence(running_on(make_node("gone@pi"), job))
    attempt = transitions.take_over(job, me)
    assert Lane.objects.get(name=Lane.FENCE).attempt == attempt


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("job_finished_at_iff_terminal", {"status": Status.FAILED}),
        ("job_finished_at_iff_terminal", {"finished_at": timezone.now()}),
        ("job_running_has_attempt_and_boot", {"status": Status.RUNNING}),
    ],
)
def test_the_database_refuses_a_row_that_lies(job: Job, name: str, fields: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        change(job, **fields)


def test_text_that_no_database_can_hold_is_escaped(job: Job, me: Me) -> None:
    running_on(me, job)
    end = End(Status.FAILED, summary="a\x00b", error="caf\udce9\x00")
    transitions.finish(job.pk, job.attempt or uuid.uuid4(), end)
    job.refresh_from_db()
    assert (job.summary, job.error) == ("a\\0b", "caf\\udce9\\0")
