"""Nothing stays as it is for ever: dead workers, orphans, lost hints and waits, each ended by whoever sees it first."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import losses, sweeper, tasks, transitions
from jobs.models import EngineSettings, Failure, Job, Lane, Status, WaitingOn, WorkerNode
from jobs.registry import HostDown, JobFailed, Summary
from jobs.sweeper import Sweeper
from jobs.waits import hint_is_gone, host_wait, is_due, take_probe
from tests.factories import (
    change,
    events,
    fence,
    make_host,
    make_job,
    make_node,
    picked_up_by,
    running_on,
    waiting_on,
)
from tests.jobs.kinds import Settled

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

    from hosts.models import Host
    from jobs.node import Me
    from tests.jobs.gate import FakeGate

pytestmark = pytest.mark.django_db
SILENCE = 20  # seconds; the default of PIHERDER_SILENCE_SEC


def again(job: Job) -> Job:
    job.refresh_from_db()
    return job


def state(job: Job) -> tuple[str, str]:
    job.refresh_from_db()
    return job.status, job.failure


def ago(**length: float) -> Any:
    return timezone.now() - timedelta(**length)


def watched(watch: Sweeper, seconds: int, start: int = 0) -> None:
    """So many seconds of watching, at the pace of a sweeper."""
    for second in range(start, start + seconds + 1, 2):
        watch.watch(float(second))


def dead(me: Me) -> bool:
    return WorkerNode.objects.get(pk=me.boot).dead_at is not None


# --- workers -----------------------------------------------------------------------------------------------------


def test_a_silent_worker_is_dead_and_its_work_failed(host: Host) -> None:
    # case H19
    lost = make_node("gone@pi")
    job = running_on(lost, make_job("copy", host))
    fence(job)
    watched(Sweeper(), SILENCE)
    assert dead(lost)
    assert state(job) == (Status.FAILED, Failure.WORKER_LOST)
    assert (job.node, Lane.objects.count()) == ("gone@pi", 0)
    assert job.error == "The worker gone@pi was lost while the job ran; it was not resumed. Run it again."


def test_a_worker_is_not_dead_before_its_time() -> None:
    node = make_node()
    watched(Sweeper(), SILENCE - 2)
    assert not dead(node)


def test_a_worker_that_beats_lives(host: Host) -> None:
    node = make_node()
    watch = Sweeper()
    for second in range(0, 120, 2):
        WorkerNode.objects.filter(pk=node.boot).update(beats=second // 6)
        watch.watch(float(second))
    assert not dead(node)


def test_a_clock_that_jumps_kills_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    node = make_node(started_at=ago(hours=30))
    watch = Sweeper()
    watch.watch(0)
    monkeypatch.setattr(timezone, "now", lambda: ago(hours=-3))
    watch.watch(2)
    assert not dead(node)


def test_silence_counts_only_in_unbroken_contact() -> None:
    node = make_node()
    watch = Sweeper()
    watched(watch, 18)
    watch.lost_contact()
    watched(watch, 18, start=20)
    assert not dead(node)
    watched(watch, 4, start=40)
    assert dead(node)


def test_a_sweeper_that_was_frozen_knows_nothing_of_that_time() -> None:
    node = make_node()
    watch = Sweeper()
    watched(watch, 4)
    watch.watch(60)
    assert not dead(node)


def test_a_counter_that_moves_at_the_last_moment_saves_its_worker() -> None:
    node = make_node()
    seen = WorkerNode.objects.get(pk=node.boot)
    WorkerNode.objects.update(beats=1)
    assert not losses.bury(seen, "silent")
    assert not dead(node)


def test_a_worker_does_not_bury_itself() -> None:
    node = make_node()
    watched(Sweeper(node), 60)
    assert not dead(node)


def test_only_one_of_two_sweepers_buries() -> None:
    seen = WorkerNode.objects.get(pk=make_node().boot)
    assert [losses.bury(seen, "silent"), losses.bury(seen, "silent")] == [True, False]


# --- what they leave ---------------------------------------------------------------------------------------------


def test_a_job_picked_up_by_a_dead_worker_goes_back(
    host: Host, hinted: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    job = picked_up_by(make_node(dead_at=timezone.now()), make_job("copy", host))
    fence(job)
    with django_capture_on_commit_callbacks(execute=True):
        Sweeper().watch(0)
    assert (again(job).status, job.attempt, hinted) == (Status.PENDING, None, [job.pk])
    assert [lane.name for lane in job.lanes.all()] == ["backup"]


def test_a_job_of_a_boot_nobody_knows_is_an_orphan(host: Host) -> None:
    # case H21
    job = running_on(make_node(), make_job("work", host))
    WorkerNode.objects.all().delete()
    Sweeper().watch(0)
    assert state(job)[1] == Failure.WORKER_LOST


def test_work_of_a_live_worker_is_no_orphan_whatever_its_age(host: Host) -> None:
    job = change(running_on(make_node(), make_job("work", host)), started_at=ago(days=9), created_at=ago(days=9))
    watched(Sweeper(), 4)
    assert again(job).status == Status.RUNNING


def test_a_flagged_orphan_ends_as_lost(host: Host) -> None:
    job = running_on(make_node(dead_at=timezone.now()), make_job("work", host))
    transitions.ask_cancel(job, "ann")
    Sweeper().watch(0)
    assert state(job) == (Status.FAILED, Failure.WORKER_LOST)


def test_one_row_that_breaks_keeps_no_other_from_its_end(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sweeper, "bury_silent_nodes", lambda self, now: 1 // 0)
    job = running_on(make_node(dead_at=timezone.now()), make_job("work", host))
    Sweeper().watch(0)
    assert again(job).status == Status.FAILED


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_row_that_the_pool_does_not_carry_is_lost_after_two_looks(host: Host, me: Me, rounds: int) -> None:
    job = running_on(me, make_job("work", host))
    watch = Sweeper(me, active_jobs=set)
    for second in range(rounds):
        watch.watch(second)
    assert again(job).status == (Status.RUNNING if rounds == 1 else Status.FAILED)


def test_a_row_that_the_pool_carries_is_not_lost(host: Host, me: Me) -> None:
    job = running_on(me, make_job("work", host))
    watched(Sweeper(me, active_jobs=lambda: {job.pk}), 10)
    assert again(job).status == Status.RUNNING


def test_a_row_missing_once_and_back_again_is_not_lost(host: Host, me: Me) -> None:
    job = running_on(me, make_job("work", host))
    pool: list[set[int]] = [set(), {job.pk}, set(), {job.pk}]
    watch = Sweeper(me, active_jobs=pool.pop)
    watched(watch, 6)
    assert again(job).status == Status.RUNNING


# --- settling ----------------------------------------------------------------------------------------------------


@pytest.fixture
def unsettled(host: Host) -> Job:
    return running_on(make_node("gone@pi", dead_at=timezone.now()), make_job("settled", host))


def found(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    def look(job: Job) -> Any:
        if isinstance(answer, Exception) and not isinstance(answer, JobFailed):
            raise answer
        return answer

    monkeypatch.setattr(Settled, "found", staticmethod(look))


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (Summary("Up again."), (Status.SUCCEEDED, "")),
        (JobFailed("It did not go down.", Failure.ERROR), (Status.FAILED, Failure.ERROR)),
        (None, (Status.FAILED, Failure.WORKER_LOST)),
        (HostDown("It does not answer."), (Status.FAILED, Failure.ERROR)),
        (ZeroDivisionError(), (Status.FAILED, Failure.WORKER_LOST)),
    ],
)
def test_the_host_says_how_it_ended(
    unsettled: Job, me: Me, monkeypatch: pytest.MonkeyPatch, answer: Any, end: tuple[str, str]
) -> None:
    found(monkeypatch, answer)
    Sweeper(me).sweep(0)
    assert state(unsettled) == end
    assert "settling" in events(unsettled)
    assert unsettled.node == "gone@pi"


def test_the_watch_speaks_to_no_host(unsettled: Job, me: Me) -> None:
    watched(Sweeper(me), 10)
    assert again(unsettled).status == Status.RUNNING


def test_beat_leaves_settling_to_a_worker(unsettled: Job, me: Me) -> None:
    Sweeper().sweep(0)
    assert again(unsettled).status == Status.RUNNING


def test_beat_ends_it_where_no_worker_lives(unsettled: Job) -> None:
    Sweeper().sweep(0)
    assert state(unsettled)[1] == Failure.WORKER_LOST


# --- hints -------------------------------------------------------------------------------------------------------


def queue() -> int:
    return tasks.queue_depths({"celery"})["celery"] or 0


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
    change(make_job("look", host), published_at=now, picked_up_at=now)
    assert hint_is_gone(job, 5, now)


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


# --- what expires ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "end"), [(119, (Status.PENDING, "")), (121, (Status.FAILED, Failure.EXPIRED))])
def test_a_kind_may_expire(host: Host, age: int, end: tuple[str, str]) -> None:
    job = change(make_job("brief", host), created_at=ago(seconds=age))
    Sweeper().tend()
    assert state(job) == end


def test_work_that_was_picked_up_does_not_expire(host: Host, me: Me) -> None:
    job = change(picked_up_by(me, make_job("brief", host)), created_at=ago(hours=1))
    Sweeper().tend()
    assert again(job).status == Status.PENDING


# --- waiting for a host ------------------------------------------------------------------------------------------


@pytest.fixture
def sleeper(transactional_db: None, host: Host) -> Job:
    """Logins are made by threads with connections of their own: they see what was committed."""
    return waiting_on(WaitingOn.HOST, make_job("copy", host))


def test_a_host_that_answers_wakes_its_job(sleeper: Job, gate: FakeGate) -> None:
    since = sleeper.waiting_since
    Sweeper().tend()
    assert (again(sleeper).waiting_on, sleeper.waiting_since, queue()) == (WaitingOn.WORKER, since, 1)
    assert [session.closed for session in gate.sessions] == [1]


def test_a_host_that_refuses_wakes_its_job_to_say_so(sleeper: Job, gate: FakeGate, host: Host) -> None:
    gate.refuses[host.pk] = Failure.AUTH_FAILED
    Sweeper().tend()
    assert again(sleeper).waiting_on == WaitingOn.WORKER


def test_a_fault_of_ours_wakes_the_job_to_show_it(sleeper: Job, gate: FakeGate) -> None:
    gate.broken = True
    Sweeper().tend()
    assert again(sleeper).waiting_on == WaitingOn.WORKER


@pytest.mark.parametrize("where", ["down", "mute"])
def test_a_host_that_stays_away_is_asked_again_later(sleeper: Job, gate: FakeGate, host: Host, where: str) -> None:
    getattr(gate, where).add(host.pk)
    Sweeper().tend()
    assert again(sleeper).waiting_on == WaitingOn.HOST
    assert (sleeper.next_probe_at or ago()) > ago(seconds=-25)
    assert sleeper.waiting_why.startswith("The host does not answer")


def test_two_sweepers_probe_once(sleeper: Job, gate: FakeGate, host: Host) -> None:
    gate.down.add(host.pk)
    Sweeper().tend()
    Sweeper().tend()
    assert gate.probed == [host.pk]


def test_of_two_that_saw_it_due_one_probes(sleeper: Job) -> None:
    mine, theirs = Job.objects.get(pk=sleeper.pk), Job.objects.get(pk=sleeper.pk)
    pause = timedelta(seconds=30)
    assert [take_probe(mine, pause), take_probe(theirs, pause)] == [True, False]


def test_hosts_are_probed_all_at_once(gate: FakeGate) -> None:
    for _ in range(3):
        other = make_host()
        gate.down.add(other.pk)
        waiting_on(WaitingOn.HOST, make_job("work", other))
    Sweeper().tend()
    assert gate.probed == sorted(gate.down)


def test_a_wait_that_is_over_is_probed_once_more_and_then_failed(sleeper: Job, gate: FakeGate, host: Host) -> None:
    gate.down.add(host.pk)
    change(sleeper, waiting_since=ago(minutes=31))
    Sweeper().tend()
    assert state(sleeper) == (Status.FAILED, Failure.HOST_UNREACHABLE)
    assert sleeper.error.startswith(f"{host.name} did not answer for 30 min: ")
    assert not Lane.objects.exists()


def test_a_host_that_comes_back_at_the_last_moment_is_in_time(sleeper: Job) -> None:
    change(sleeper, waiting_since=ago(minutes=31))
    Sweeper().tend()
    assert again(sleeper).waiting_on == WaitingOn.WORKER


@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_jumps_neither_ends_nor_stretches_a_wait(
    sleeper: Job, gate: FakeGate, host: Host, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    gate.down.add(host.pk)
    change(sleeper, waiting_since=ago(minutes=10))
    now = timezone.now() + timedelta(hours=hours)
    monkeypatch.setattr(timezone, "now", lambda: now)
    Sweeper().tend()
    assert again(sleeper).status == Status.PENDING
    assert abs(now - (sleeper.waiting_since or now) - timedelta(minutes=10)) < timedelta(minutes=1)


def test_the_limit_is_read_anew_and_the_environment_locks_it(settings: Settings) -> None:
    assert host_wait() == timedelta(minutes=30)
    EngineSettings.objects.create(pk=1, host_wait_sec=60)
    assert host_wait() == timedelta(minutes=1)
    settings.PIHERDER_EXCLUSIVE_HOST_WAIT_SEC = 90
    assert host_wait() == timedelta(seconds=90)


def test_a_held_herd_is_not_probed(sleeper: Job, gate: FakeGate) -> None:
    EngineSettings.objects.create(pk=1, held_at=timezone.now())
    Sweeper().tend()
    assert gate.probed == []


def test_a_due_time_far_ahead_is_due() -> None:
    now = timezone.now()
    assert is_due(now + timedelta(hours=3), now)
    assert not is_due(now + timedelta(seconds=29), now)


# --- waiting for the lock ----------------------------------------------------------------------------------------


def locked(kind: str, host: Host, age: float, **fields: Any) -> Job:
    job = make_job(kind, host, **fields)
    return waiting_on(WaitingOn.LOCK, job, waiting_since=ago(seconds=age))


def woken() -> list[int]:
    return list(Job.objects.filter(waiting_on=WaitingOn.WORKER).order_by("id").values_list("pk", flat=True))


def test_the_oldest_waiter_is_woken_and_no_other(host: Host) -> None:
    young, old = locked("copy", host, 10), locked("bring", host, 20)
    Sweeper().tend()
    assert woken() == [old.pk]
    change(young, next_probe_at=ago(seconds=1))
    Sweeper().tend()
    assert woken() == [old.pk]


def test_nobody_is_woken_while_the_fence_stands(host: Host, me: Me) -> None:
    fence(running_on(me, make_job("bring", host)))
    locked("copy", host, 10)
    Sweeper().tend()
    assert woken() == []


def test_an_older_waiter_that_is_not_due_yet_is_not_overtaken(host: Host) -> None:
    locked("copy", host, 10)
    change(locked("bring", host, 20), next_probe_at=ago(seconds=-4))
    Sweeper().tend()
    assert woken() == []


def test_a_waiter_for_two_hosts_is_not_starved(host: Host, me: Me) -> None:
    peer = make_host()
    fence(running_on(me, make_job("copy", peer)))
    locked("bring", host, 20, peer_host_id=peer.pk)
    locked("copy", host, 10)
    Sweeper().tend()
    assert woken() == []


def test_waiters_of_other_hosts_are_woken_together(host: Host) -> None:
    jobs = [locked("copy", host, 10), locked("copy", make_host(), 5)]
    Sweeper().tend()
    assert woken() == [job.pk for job in jobs]


def test_a_lock_is_not_waited_for_for_ever(host: Host) -> None:
    job = change(locked("copy", host, 10_801), waiting_why="Job 5 (bring) is copying on this host.")
    Sweeper().tend()
    assert state(job) == (Status.FAILED, Failure.LOCK_TIMEOUT)
    assert job.error == "The copy lock was not free in time: Job 5 (bring) is copying on this host."


def test_a_row_cancelled_meanwhile_is_not_woken(sleeper: Job) -> None:
    seen = Job.objects.get(pk=sleeper.pk)
    change(sleeper, status=Status.CANCELLED, finished_at=timezone.now())
    sweeper._wake(seen)
    assert queue() == 0


def test_a_waking_uses_a_new_message(sleeper: Job) -> None:
    old = sleeper.celery_task_id
    Sweeper().tend()
    assert again(sleeper).celery_task_id not in (old, uuid.UUID(int=0))
