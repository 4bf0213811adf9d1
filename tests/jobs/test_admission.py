"""One active job per kind and host, one per lane: the database decides, and a refusal says who is in the way."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.utils import timezone

from jobs import admission
from jobs.admission import Busy, Draft, Unavailable, admit
from jobs.models import Job, Lane, Status, WaitingOn
from jobs.registry import get
from tests.factories import change, events, make_host, make_job, picked_up_by, running_on, waiting_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.models import Host
    from jobs.node import Me
    from tests.jobs.gate import FakeGate


def draft(kind: str, host: Host | None = None, params: dict[str, Any] | None = None, **fields: Any) -> Draft:
    family = get(kind)
    return Draft(family, host.pk if host else None, params or {}, lanes=family.lanes, **fields)


def lanes(job: Job) -> list[str]:
    return list(job.lanes.values_list("name", flat=True))


def test_a_job_comes_with_its_lanes_and_its_event(host: Host) -> None:
    job, attached = admit(draft("wide", host))
    assert not attached
    assert lanes(job) == ["backup", "look", "work"]
    assert events(job) == ["requested"]


def test_the_same_request_attaches(host: Host) -> None:
    # case H26
    first = make_job("work", host, {"tag": "a"})
    assert admit(draft("work", host, {"tag": "a"})) == (first, True)
    assert Job.objects.count() == 1


@pytest.mark.parametrize("state", [picked_up_by, running_on])
def test_the_same_request_is_refused_while_the_first_is_being_cancelled(
    host: Host, me: Me, state: Callable[[Me, Job], Job]
) -> None:
    first = change(state(me, make_job("work", host)), cancel_requested_at=timezone.now())
    with pytest.raises(Busy) as caught:
        admit(draft("work", host))
    assert str(caught.value) == f"Work cannot start: job {first.pk} (work on {host.name}) is cancelling."


def test_the_order_of_parameters_makes_no_other_request(host: Host) -> None:
    assert draft("work", host, {"a": 1, "b": 2}).digest == draft("work", host, {"b": 2, "a": 1}).digest


def test_other_parameters_are_refused_in_words(host: Host) -> None:
    first = make_job("work", host, {"tag": "a"})
    with pytest.raises(Busy) as caught:
        admit(draft("work", host, {"tag": "b"}))
    assert str(caught.value) == f"Work cannot start: job {first.pk} (work on {host.name}) is queued."
    assert caught.value.job == first


@pytest.mark.parametrize(("there", "asked"), [("wide", "copy"), ("copy", "wide"), ("look", "wide")])
def test_kinds_that_share_a_lane_refuse_each_other(host: Host, there: str, asked: str) -> None:
    first = make_job(there, host)
    with pytest.raises(Busy, match=f"job {first.pk}"):
        admit(draft(asked, host))
    assert set(lanes(first)) == set(Lane.objects.values_list("name", flat=True))


def test_kinds_of_other_lanes_run_beside_each_other(host: Host) -> None:
    make_job("work", host)
    make_job("copy", host)
    make_job("look", host)
    assert Job.objects.count() == 3


def test_another_host_is_another_lane(host: Host) -> None:
    make_job("work", host)
    make_job("work", make_host())
    assert Lane.objects.filter(name="work").count() == 2


def test_work_without_a_host_is_kept_apart_by_its_lane(db: None) -> None:
    first = make_job("chore")
    with pytest.raises(Busy) as caught:
        admit(draft("chore", params={"tag": "x"}))
    assert caught.value.job == first


def test_loose_work_is_never_in_its_own_way(db: None) -> None:
    make_job("loose")
    make_job("loose")


def test_a_job_on_two_hosts_holds_its_lanes_on_both(host: Host) -> None:
    peer = make_host()
    make_job("bring", host, peer_host_id=peer.pk)
    assert list(Lane.objects.values_list("host_id", flat=True)) == sorted([host.pk, peer.pk])
    with pytest.raises(Busy):
        admit(draft("bring", peer))


def test_the_rule_is_a_constraint_with_a_name(host: Host) -> None:
    make_job("look", host)
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        admission._insert(Draft(get("look"), host.pk, {}, lanes=()))
    name = "job_one_active_per_host_and_kind"
    assert name in str(caught.value) or "jobs_job.host_id, jobs_job.kind" in str(caught.value)


def test_an_ended_job_is_not_in_the_way(host: Host) -> None:
    first = make_job("work", host)
    change(first, status=Status.FAILED, finished_at=timezone.now())
    first.lanes.all().delete()
    assert admit(draft("work", host))[1] is False


def test_a_holder_that_ends_between_insert_and_look_is_tried_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_job("work", host)
    look = admission.in_the_way

    def ends_first(asked: Draft) -> Job | None:
        change(first, status=Status.SUCCEEDED, finished_at=timezone.now())
        first.lanes.all().delete()
        return look(asked)

    monkeypatch.setattr(admission, "in_the_way", ends_first)
    assert admit(draft("work", host))[0] != first


def failing(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database breaks the insert off as a deadlock does, this often."""
    insert, left = admission._insert, [OperationalError("deadlock detected")] * times

    def broken_off(asked: Draft) -> Job:
        if left:
            raise left.pop()
        return insert(asked)

    monkeypatch.setattr(admission, "_insert", broken_off)


def test_one_deadlock_is_tried_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(1, monkeypatch)
    assert admit(draft("work", host))[1] is False


def test_two_deadlocks_are_said_in_words(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(2, monkeypatch)
    with pytest.raises(Unavailable, match=r"^The database is busy: try again in a moment\.$"):
        admit(draft("work", host))


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer and no lock time-out")
def test_a_lane_that_stays_locked_is_said_in_words(host: Host) -> None:
    """Another process has inserted the lane and does not commit."""
    inserted, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            make_job("wide", host)
            inserted.set()
            go_on.wait(20)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    inserted.wait(10)
    try:
        with pytest.raises(Unavailable):
            admit(draft("work", host))
    finally:
        go_on.set()
        holder.join(10)


def test_the_hint_is_sent_after_the_commit(
    host: Host, hinted: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    # case H15
    with django_capture_on_commit_callbacks(execute=True):
        job = make_job("work", host)
        assert hinted == []
    assert hinted == [job.pk]


@pytest.mark.django_db(transaction=True)
def test_a_request_that_is_rolled_back_sends_nothing(host: Host, hinted: list[int]) -> None:
    # case H15
    def and_back() -> None:
        with transaction.atomic():
            make_job("work", host)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        and_back()
    assert hinted == []
    assert not Job.objects.exists()


def test_a_host_that_was_down_gets_no_slot(
    host: Host, hinted: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    type(host).objects.update(last_error_at=timezone.now())
    with django_capture_on_commit_callbacks(execute=True):
        job = make_job("work", host)
    assert (job.waiting_on, hinted) == (WaitingOn.HOST, [])
    assert job.next_probe_at is not None


def test_a_job_joins_the_wait_of_another_for_the_same_host(host: Host) -> None:
    waiting_on(WaitingOn.HOST, make_job("work", host))
    assert make_job("look", host).waiting_on == WaitingOn.HOST


def test_a_host_with_jobs_cannot_be_deleted(host: Host, me: Me) -> None:
    running_on(me, make_job("work", host))
    with pytest.raises(IntegrityError), transaction.atomic():
        host.delete()


def test_an_unknown_gate_is_never_asked_for_work_without_a_host(db: None, gate: FakeGate) -> None:
    make_job("chore")
    assert gate.probed == []
