"""One message, looked at: what may start starts once, what may not waits without a slot, and every end is written."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import logs, mutex, node, runner, services, transitions
from jobs.models import Door, Failure, Job, JobLine, Lane, ScheduleFire, Status, WaitingOn, WorkerNode
from jobs.registry import JobFailed, NotYet, StopWork, Summary
from jobs.services import Asker
from jobs.transitions import LostClaim
from tests.factories import change, events, fence, make_host, make_job, make_node, picked_up_by, running_on
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


def run(job: Job) -> Job:
    """The row after one message was looked at."""
    runner.run(job.pk)
    job.refresh_from_db()
    return job


def raising(error: BaseException) -> Callable[[LiveRun], Summary]:
    def action(live: LiveRun) -> Summary:
        raise error

    return action


def nothing_is_held(gate: FakeGate) -> bool:
    return gate.all_closed and not Lane.objects.exists() and not mutex.client().keys("piherder:*")


# --- what starts -------------------------------------------------------------------------------------------------


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


# --- what waits --------------------------------------------------------------------------------------------------


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


# --- cancels that come in between --------------------------------------------------------------------------------


def test_a_cancel_between_pick_up_and_claim_starts_nothing(host: Host, gate: FakeGate) -> None:
    job = make_job("copy", host)
    gate.before_open = lambda _: transitions.ask_cancel(Job.objects.get(pk=job.pk), "ann")
    assert run(job).status == Status.CANCELLED
    assert "running" not in events(job)
    assert nothing_is_held(gate)


def test_a_row_taken_away_between_pick_up_and_claim_is_left_alone(host: Host, gate: FakeGate) -> None:
    job = make_job("work", host)
    taken = uuid.uuid4()

    def take(_: int) -> None:
        Job.objects.filter(pk=job.pk).update(attempt=taken)

    gate.before_open = take
    assert (run(job).attempt, job.status) == (taken, Status.PENDING)
    assert gate.all_closed


# --- how it ends -------------------------------------------------------------------------------------------------


def test_work_that_failed_says_so_and_keeps_what_it_measured(host: Host, todo: Say) -> None:
    todo(raising(JobFailed("The disk is full.", Failure.NO_SPACE, {"free": 0})))
    job = run(make_job("work", host))
    assert (job.status, job.failure, job.error) == (Status.FAILED, Failure.NO_SPACE, "The disk is full.")
    assert job.result == {"free": 0}


def test_a_bug_keeps_its_traceback(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(raising(ZeroDivisionError("oh")))
    job = run(make_job("copy", host))
    assert job.error == "A fault in PiHerder ended the job (ZeroDivisionError: oh); the log holds the traceback."
    assert "Traceback (most recent call last):" in "".join(logs.read(job.pk))
    assert nothing_is_held(gate)


def test_a_result_that_cannot_be_stored_ends_the_job_all_the_same(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(lambda live: Summary("Copied 3 files.", {"when": object()}))
    job = run(make_job("copy", host))
    assert (job.status, job.failure) == (Status.FAILED, Failure.ERROR)
    assert "Copied 3 files." in job.error
    assert nothing_is_held(gate)


@pytest.mark.parametrize(
    ("reason", "status", "text"),
    [
        ("cancel", Status.CANCELLED, "Cancelled; no process of the job is left."),
        (Failure.TIME_LIMIT, Status.FAILED, "Stopped at its time limit."),
        (Failure.LOCK_LOST, Status.FAILED, "Stopped because another job holds the host's copy lock."),
        (Failure.WORKER_STOPPED, Status.FAILED, "The worker w1@pi was stopped; the job was not resumed. Run it again."),
    ],
)
def test_work_that_was_stopped_says_why(host: Host, todo: Say, reason: str, status: Status, text: str) -> None:
    todo(raising(StopWork(reason)))
    job = run(make_job("work", host))
    assert (job.status, job.evidence) == (status, text)
    assert job.failure == ("" if reason == "cancel" else reason)


def test_an_end_that_the_host_could_not_confirm_says_so(host: Host, todo: Say) -> None:
    stop = StopWork("cancel")
    stop.unconfirmed = True
    todo(raising(stop))
    job = run(make_job("work", host))
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.CANCEL_UNCONFIRMED)


@pytest.mark.parametrize("broken", [OSError("the socket was closed"), JobFailed("rsync ended with code 20.")])
def test_work_that_breaks_because_it_was_stopped_was_stopped(host: Host, todo: Say, broken: Exception) -> None:
    def action(live: LiveRun) -> Summary:
        live.stop("cancel")
        raise broken

    todo(action)
    job = run(make_job("work", host))
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.CANCEL_UNCONFIRMED)
    assert str(broken) in "".join(logs.read(job.pk))


def test_a_detail_of_the_stop_is_kept(host: Host, todo: Say) -> None:
    stop = StopWork(Failure.TIME_LIMIT)
    stop.add_note("Stopped at the limit, 63 % copied.")
    todo(raising(stop))
    assert run(make_job("work", host)).error == "Stopped at the limit, 63 % copied."


def test_a_cold_stop_of_the_worker_is_written_and_passed_on(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(raising(SystemExit(-241)))
    job = make_job("copy", host)
    with pytest.raises(SystemExit):
        runner.run(job.pk)
    job.refresh_from_db()
    assert (job.status, job.failure) == (Status.FAILED, Failure.WORKER_STOPPED)
    assert nothing_is_held(gate)


def test_celerys_soft_limit_is_a_time_limit(host: Host, todo: Say) -> None:
    todo(raising(type("SoftTimeLimitExceeded", (Exception,), {})()))
    assert run(make_job("work", host)).failure == Failure.TIME_LIMIT


def test_a_lost_claim_writes_nothing(host: Host, todo: Say) -> None:
    def action(live: LiveRun) -> Summary:
        live.log("a line")
        Job.objects.update(attempt=uuid.uuid4())
        raise LostClaim

    todo(action)
    job = run(make_job("work", host))
    assert (job.status, job.log_lines, JobLine.objects.count()) == (Status.RUNNING, 0, 0)
    assert events(job)[-1] == "running"


def test_work_that_ends_after_its_claim_was_lost_writes_no_end(host: Host, todo: Say) -> None:
    def action(live: LiveRun) -> Summary:
        Job.objects.update(attempt=uuid.uuid4())
        return Summary("Done.")

    todo(action)
    assert run(make_job("work", host)).status == Status.RUNNING


def test_a_job_deleted_while_it_ran_ends_quietly(host: Host, gate: FakeGate, todo: Say) -> None:
    def action(live: LiveRun) -> Summary:
        live.log("a line")
        Job.objects.all().delete()
        return Summary("Done.")

    todo(action)
    runner.run(make_job("copy", host).pk)
    assert nothing_is_held(gate)


def test_work_that_has_not_begun_goes_back_to_waiting(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(raising(NotYet("Another copy runs on the host.")))
    job = run(make_job("copy", host))
    assert (job.status, job.waiting_on, job.waiting_why) == (
        Status.PENDING,
        WaitingOn.LOCK,
        "Another copy runs on the host.",
    )
    assert not mutex.client().keys("piherder:*")
    assert not Lane.objects.filter(name=Lane.FENCE).exists()


def test_the_last_lines_and_the_last_progress_are_written(host: Host, todo: Say) -> None:
    def action(live: LiveRun) -> Summary:
        live.log("the last line")
        live.progress(3, 4, "caf\udce9")
        return Summary("Done.")

    todo(action)
    job = run(make_job("work", host))
    assert JobLine.objects.get().text == "the last line"
    assert (job.percent, job.progress_label) == (75, "caf\\udce9")
    assert logs.path_of(job.pk).with_suffix(".log.gz").exists()


@pytest.mark.parametrize(("end", "kept"), [(Summary("Done."), 0), (JobFailed("No."), 1)])
def test_a_kind_may_keep_no_log_of_a_good_run(todo: Say, end: Any, kept: int) -> None:
    def action(live: LiveRun) -> Summary:
        live.log("a line")
        if isinstance(end, Exception):
            raise end
        assert isinstance(end, Summary)
        return end

    todo(action)
    job = run(make_job("chore"))
    assert (JobLine.objects.count(), len(list(logs.read(job.pk)))) == (kept, kept)


# --- what follows ------------------------------------------------------------------------------------------------


def test_the_job_that_follows_is_inserted_with_the_end(host: Host, hinted: list[int]) -> None:
    first = run(make_job("work", host, then={"kind": "work", "params": {"tag": "b"}}))
    second = Job.objects.exclude(pk=first.pk).get()
    assert (second.host_id, second.params, second.door) == (host.pk, {"tag": "b"}, Door.THEN)
    assert hinted[-1] == second.pk
    assert first.events.last().text == f"Started job {second.pk} (work)."  # type: ignore[union-attr]  # it has events


def test_nothing_follows_a_failure(host: Host, todo: Say) -> None:
    todo(raising(JobFailed("No.")))
    run(make_job("work", host, then={"kind": "look"}))
    assert Job.objects.count() == 1


@pytest.mark.parametrize("then", [{"kind": "gone"}, {"kind": "copy"}])
def test_a_follower_that_is_refused_is_an_event(host: Host, then: dict[str, Any]) -> None:
    make_job("copy", host, {"tag": "x"})
    job = run(make_job("work", host, then=then))
    assert job.status == Status.SUCCEEDED
    assert job.events.last().text.startswith("Not started: ")  # type: ignore[union-attr]  # it has events


def test_an_end_that_is_taken_back_takes_its_follower_along(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job("work", host, then={"kind": "look"})
    change(job, attempt=uuid.uuid4(), boot=uuid.uuid4(), status=Status.RUNNING)
    create = type(job.events.model.objects).create

    def full(manager: Any, **fields: Any) -> Any:
        if fields.get("name") == "then":
            raise InterruptedError
        return create(manager, **fields)

    monkeypatch.setattr(type(job.events.model.objects), "create", full)
    with pytest.raises(InterruptedError):
        transitions.finish(job.pk, job.attempt or uuid.uuid4(), transitions.End(Status.SUCCEEDED))
    assert [row.status for row in Job.objects.all()] == [Status.RUNNING]
