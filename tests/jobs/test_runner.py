"""One message, looked at: what may start starts once, what may not waits without a slot, and every end is written."""

from __future__ import annotations

import itertools
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from jobs import mutex, node, runner, services, transitions
from jobs.models import Door, Failure, Job, Lane, ScheduleFire, Status, WaitingOn, WorkerNode
from jobs.registry import NotYet, Summary
from jobs.services import Asker
from jobs.transitions import LostClaim
from tests.factories import change, events, fence, make_host, make_job, make_node, picked_up_by, running_on
from tests.jobs.running import nothing_is_held, run
from tests.jobs.schedule_rows import make_fire

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.models import Host
    from jobs.node import Me
    from jobs.run import LiveRun
    from tests.jobs.conftest import CutRedis
    from tests.jobs.gate import FakeGate

    Say = Callable[[Callable[[LiveRun], Summary]], None]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("me")]


def test_a_job_runs_to_its_end(host: Host, gate: FakeGate) -> None:
    job = run(make_job("copy", host))
    assert (job.status, job.summary, job.result, job.node) == (Status.SUCCEEDED, "Done.", {"n": 1}, "w1@pi")
    assert events(job) == ["requested", "picked up", "running", "succeeded"]
    assert nothing_is_held(gate)


def test_while_it_runs_it_holds_lane_fence_and_mutex(host: Host, todo: Say) -> None:
    held: list[Any] = []

    def look(live: LiveRun) -> Summary:
        held.extend(Lane.objects.values_list("name", flat=True))
        held.append(mutex.client().get(mutex.key(host.pk)))
        return Summary("Done.")

    todo(look)
    job = run(make_job("copy", host))
    assert held == ["backup", "rsync", f"{job.pk}:{job.attempt}"]


def test_work_without_a_host_asks_no_host(gate: FakeGate) -> None:
    assert run(make_job("chore")).status == Status.SUCCEEDED
    assert (gate.probed, gate.sessions) == ([], [])


def test_the_work_gets_the_connection_made_at_pick_up(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(lambda live: Summary(f"{live.shell() is gate.sessions[0]}"))
    assert run(make_job("work", host)).summary == "True"


def test_a_job_that_was_deleted_is_no_job() -> None:
    runner.run(999)


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_a_message_for_an_ended_job_is_ignored(host: Host, status: Status) -> None:
    job = change(make_job("work", host), status=status, finished_at=timezone.now())
    assert run(job).status == status
    assert events(job) == ["requested"]


def test_a_message_for_a_job_that_another_holds_is_ignored(host: Host) -> None:
    job = picked_up_by(make_node("w2@pi"), make_job("work", host))
    assert run(job).node == "w2@pi"


def test_a_second_delivery_of_running_work_is_ignored(host: Host) -> None:
    # case H01
    job = running_on(make_node("w2@pi"), make_job("work", host))
    assert run(job).status == Status.RUNNING


@pytest.mark.parametrize("gone", [{"dead_at": timezone.now()}, None])
def test_a_second_delivery_after_the_worker_died_fails_it(host: Host, gone: dict[str, Any] | None) -> None:
    # case H03
    other = make_node("w2@pi", **(gone or {}))
    job = running_on(other, make_job("work", host))
    if gone is None:
        WorkerNode.objects.filter(pk=other.boot).delete()
    assert (run(job).status, job.failure, job.node) == (Status.FAILED, Failure.WORKER_LOST, "w2@pi")


def test_a_second_delivery_leaves_what_can_be_settled_to_the_sweep(host: Host) -> None:
    # case B06
    job = running_on(make_node("w2@pi", dead_at=timezone.now()), make_job("settled", host))
    assert run(job).status == Status.RUNNING


def test_a_kind_that_no_longer_exists_fails_in_words(host: Host) -> None:
    job = run(change(make_job("work", host), kind="gone"))
    assert (job.failure, job.lanes.count()) == (Failure.UNKNOWN_KIND, 0)
    assert job.error.startswith("There is no kind of work called gone")


def test_outside_a_worker_nothing_runs(host: Host) -> None:
    job = make_job("work", host)
    node._me.clear()
    with pytest.raises(RuntimeError, match="no worker"):
        runner.run(job.pk)


def unhinted(job: Job) -> bool:
    """Untouched, and left to the sweeper to publish again."""
    return (job.status, job.attempt, job.published_at, len(events(job))) == (Status.PENDING, None, None, 1)


def published(kind: str, host: Host, **fields: Any) -> Job:
    return change(make_job(kind, host, **fields), published_at=timezone.now())


def test_a_held_herd_starts_nothing(host: Host) -> None:
    job = published("work", host)
    services.hold("", asker=Asker(Door.PAGE))
    assert unhinted(run(job))


def test_a_paused_host_starts_nothing(host: Host) -> None:
    job = published("work", host)
    type(host).objects.update(paused_at=timezone.now())
    assert unhinted(run(job))


def test_a_worker_that_drains_starts_nothing(host: Host) -> None:
    job = published("work", host)
    WorkerNode.objects.update(drain_at=timezone.now())
    assert unhinted(run(job))


@pytest.mark.parametrize("where", ["down", "mute"])
def test_a_host_that_is_down_is_waited_for_without_a_slot(host: Host, gate: FakeGate, where: str) -> None:
    getattr(gate, where).add(host.pk)
    job = run(make_job("copy", host))
    assert (job.status, job.waiting_on, job.attempt, job.node) == (Status.PENDING, WaitingOn.HOST, None, "w1@pi")
    assert [lane.name for lane in job.lanes.all()] == ["backup"]
    assert (job.next_probe_at or timezone.now()) > timezone.now() + timedelta(seconds=20)


@pytest.mark.parametrize("code", [Failure.AUTH_FAILED, Failure.HOST_KEY_CHANGED])
def test_a_host_that_refuses_fails_the_job_at_once(host: Host, gate: FakeGate, code: Failure) -> None:
    gate.refuses[host.pk] = code
    job = run(make_job("work", host))
    assert (job.status, job.failure, job.error) == (Status.FAILED, code, "The host refuses the key.")
    assert nothing_is_held(gate)


def test_a_fault_before_the_claim_fails_the_job_instead_of_looping(host: Host, gate: FakeGate) -> None:
    gate.broken = True
    job = run(make_job("work", host))
    assert (job.status, job.failure) == (Status.FAILED, Failure.ERROR)
    assert "A fault in PiHerder ended the job (KeyError: 'a fault of ours')" in job.error


def test_a_fence_that_is_taken_names_its_holder(host: Host, gate: FakeGate) -> None:
    other = running_on(make_node("w2@pi"), make_job("bring", host))
    fence(other)
    job = run(make_job("copy", host))
    assert (job.waiting_on, job.waiting_why) == (WaitingOn.LOCK, f"Job {other.pk} (bring) is copying on this host.")
    assert gate.all_closed


def test_a_mutex_that_is_taken_names_its_holder_and_frees_the_fence(host: Host) -> None:
    other = running_on(make_node("w2@pi"), make_job("bring", host))
    mutex.client().set(mutex.key(host.pk), f"{other.pk}:{other.attempt}")
    job = run(make_job("copy", host))
    assert (job.waiting_on, job.waiting_why) == (WaitingOn.LOCK, f"Job {other.pk} holds the host's copy lock.")
    assert not Lane.objects.filter(name=Lane.FENCE).exists()


def test_two_fences_are_taken_both_or_none(host: Host) -> None:
    peer = make_host()
    fence(running_on(make_node("w2@pi"), make_job("copy", peer)))
    assert run(make_job("bring", host, peer_host_id=peer.pk)).waiting_on == WaitingOn.LOCK
    assert Lane.objects.filter(name=Lane.FENCE).count() == 1


def test_without_redis_a_copy_waits(host: Host, redis_away: CutRedis) -> None:
    job = run(make_job("copy", host))
    assert (job.waiting_on, job.waiting_why) == (
        WaitingOn.LOCK,
        "Redis does not answer. The job starts when it does.",
    )


def test_without_redis_other_work_runs(host: Host, redis_away: CutRedis) -> None:
    assert run(make_job("work", host)).status == Status.SUCCEEDED


def scheduled(host: Host) -> Job:
    return make_job("copy", host, fire_id=make_fire().pk)


def test_a_scheduled_copy_leaves_a_slot_free(host: Host, me: Me) -> None:
    running_on(me, make_job("work", make_host()))
    job = run(scheduled(host))
    assert (job.waiting_on, job.waiting_why) == (
        WaitingOn.WORKER,
        "A slot is kept free for work that a person starts.",
    )


def test_what_a_person_starts_takes_the_last_slot(host: Host, me: Me) -> None:
    running_on(me, make_job("work", make_host()))
    assert run(make_job("copy", host)).status == Status.SUCCEEDED


def test_a_scheduled_copy_starts_on_an_idle_worker(host: Host) -> None:
    assert run(scheduled(host)).status == Status.SUCCEEDED
    assert ScheduleFire.objects.count() == 1


def test_a_worker_of_one_slot_reserves_none(host: Host) -> None:
    WorkerNode.objects.update(slots=1)
    assert run(scheduled(host)).status == Status.SUCCEEDED


def test_a_cancel_between_pick_up_and_claim_starts_nothing(host: Host, gate: FakeGate) -> None:
    job = make_job("copy", host)
    gate.before_open = lambda _: transitions.ask_cancel(Job.objects.get(pk=job.pk), "ann")
    assert run(job).status == Status.CANCELLED
    assert "running" not in events(job)
    assert nothing_is_held(gate)


@pytest.mark.parametrize("step", ["pick_up", "claim"])
@pytest.mark.parametrize("heard", [False, True])
def test_a_database_that_restarts_between_pick_up_and_work_fails_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch, step: str, heard: bool
) -> None:
    """`heard`: the first call was committed, and its answer got lost."""
    real, calls = getattr(transitions, step), itertools.count()

    def restarting(*args: Any) -> Any:
        first = next(calls) == 0
        answer = None if first and not heard else real(*args)
        if first:
            raise OperationalError("server closed the connection unexpectedly")
        return answer

    monkeypatch.setattr(transitions, step, restarting)
    job = run(make_job("copy", host))
    assert events(job) == ["requested", "picked up", "running", "succeeded"]


def test_a_put_back_waits_for_the_database(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    job, real, calls = make_job("copy", host), transitions.put_back, itertools.count()

    def restarting(*args: Any) -> None:
        if next(calls) == 0:
            raise OperationalError("gone")
        real(*args)

    def cancelled(job_id: int, attempt: uuid.UUID) -> None:
        raise LostClaim

    monkeypatch.setattr(transitions, "claim", cancelled)
    monkeypatch.setattr(transitions, "put_back", restarting)
    assert (run(job).attempt, job.status) == (None, Status.PENDING)


def test_a_row_taken_away_between_pick_up_and_claim_is_left_alone(host: Host, gate: FakeGate) -> None:
    job = make_job("work", host)
    taken = uuid.uuid4()

    def take(_: int) -> None:
        Job.objects.filter(pk=job.pk).update(attempt=taken)

    gate.before_open = take
    assert (run(job).attempt, job.status) == (taken, Status.PENDING)
    assert gate.all_closed


def test_a_row_taken_away_before_the_fence_sets_none(
    host: Host, gate: FakeGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutex.HostMutex, "take", lambda self: pytest.fail("it went on to the mutex"))
    job = make_job("copy", host)

    def take(_: int) -> None:  # as a sweeper does with the pick-up of a worker that it took for dead
        transitions.release_pick_up(Job.objects.get(pk=job.pk), "silent")

    gate.before_open = take
    assert (run(job).attempt, job.status) == (None, Status.PENDING)
    assert not Lane.objects.filter(name=Lane.FENCE).exists()
    assert gate.all_closed


def test_what_was_said_before_not_yet_is_kept(host: Host, todo: Say) -> None:
    said = iter(["first", "second"])

    def locked(live: LiveRun) -> Summary:
        live.log(next(said))
        raise NotYet("A copy holds the lock.")

    todo(locked)
    job = run(make_job("copy", host))
    assert [line.text for line in job.lines.all()] == ["first"]
    run(change(job, next_probe_at=None))
    assert [(line.number, line.text) for line in job.lines.all()] == [(1, "first"), (2, "second")]
