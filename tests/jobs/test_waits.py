"""Waiting costs no slot: for a host, probed when due, and for the lock, oldest first; and no wait is for ever."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import sweeper
from jobs.models import EngineSettings, Failure, Job, Lane, Status, WaitingOn
from jobs.sweeper import Sweeper
from jobs.waits import Clocks, host_wait, is_due, take_probe, waited
from tests.factories import (
    change,
    fence,
    make_host,
    make_job,
    picked_up_by,
    running_on,
    waiting_on,
)
from tests.jobs.looks import again, ago, queue, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_django.fixtures import Settings

    from hosts.models import Host
    from jobs.node import Me
    from tests.jobs.gate import FakeGate

pytestmark = pytest.mark.django_db


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
    watch = Sweeper()
    watch.tend()
    now = timezone.now() + timedelta(hours=hours)
    monkeypatch.setattr(timezone, "now", lambda: now)
    watch.tend()
    assert again(sleeper).status == Status.PENDING
    assert abs(now - (sleeper.waiting_since or now) - timedelta(minutes=10)) < timedelta(minutes=1)


def test_a_jump_moves_a_wait_once_although_many_saw_it(sleeper: Job) -> None:
    hour, pause = timedelta(hours=1), timedelta(seconds=30)
    change(sleeper, waiting_since=ago(hours=1, minutes=10), next_probe_at=ago(hours=1))
    assert take_probe(again(sleeper), pause, hour)
    change(sleeper, next_probe_at=ago(seconds=1))
    assert take_probe(again(sleeper), pause, hour)
    assert timedelta(minutes=9) < waited(again(sleeper)) < timedelta(minutes=11)


@pytest.mark.parametrize("late", [{"seconds": 8}, {"minutes": 5}])
def test_a_sweep_that_took_long_stretches_no_wait(sleeper: Job, late: dict[str, float]) -> None:
    since = ago(minutes=10)
    change(sleeper, waiting_since=since, next_probe_at=ago(**late))
    assert take_probe(again(sleeper), timedelta(seconds=2))
    assert again(sleeper).waiting_since == since


@pytest.mark.parametrize("hours", [3, -3])
def test_a_jump_that_nobody_saw_moves_the_wait_too(sleeper: Job, hours: int) -> None:
    change(sleeper, waiting_since=ago(hours=hours, minutes=10), next_probe_at=ago(hours=hours))
    assert take_probe(again(sleeper), timedelta(seconds=30))
    assert timedelta(minutes=9) < waited(again(sleeper)) < timedelta(minutes=11)


class TwoClocks:
    """A wall clock and a monotonic one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.mono = timezone.now(), 100.0
        monkeypatch.setattr(timezone, "now", lambda: self.wall)
        monkeypatch.setattr(time, "monotonic", lambda: self.mono)

    def go(self, wall: float, mono: float) -> None:
        self.wall, self.mono = self.wall + timedelta(seconds=wall), self.mono + mono


@pytest.mark.parametrize(
    ("wall", "mono", "jump"), [(600, 600, 0), (7200, 0, 7200), (-7200, 2, -7202), (100, 0, 0), (0, 100, 0)]
)
def test_a_clock_jumps_when_the_other_does_not_go_along(
    monkeypatch: pytest.MonkeyPatch, wall: float, mono: float, jump: float
) -> None:
    both, clocks = TwoClocks(monkeypatch), Clocks()
    assert clocks.jump() == timedelta(0)
    both.go(wall, mono)
    assert clocks.jump().total_seconds() == pytest.approx(jump)
    assert clocks.jump() == timedelta(0)


@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_jumps_in_mid_sweep_ends_no_wait(
    sleeper: Job, gate: FakeGate, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    both, watch = TwoClocks(monkeypatch), Sweeper()
    change(sleeper, waiting_since=both.wall - timedelta(minutes=10), next_probe_at=both.wall)
    gate.down.add(sleeper.host_id or 0)
    real = gate.port_answers

    def probed(host_ids: Sequence[int]) -> dict[int, bool]:
        both.go(hours * 3600, 1)
        return real(host_ids)

    monkeypatch.setattr(gate, "port_answers", probed)
    watch.tend()
    assert again(sleeper).status == Status.PENDING


@pytest.mark.parametrize("where", ["host", "peer"])
def test_what_waits_for_a_host_that_was_removed_ends_in_words(host: Host, gate: FakeGate, where: str) -> None:
    peer = make_host("peer")
    job, other = make_job("bring", host, peer_host_id=peer.pk), make_job("look", make_host())
    gone = {"host": host, "peer": peer}[where]
    type(host).objects.filter(pk=gone.pk).update(removed_at=timezone.now())
    Sweeper().tend()
    assert state(job) == (Status.FAILED, Failure.REFUSED)
    assert job.error == f"{gone.name} was removed: add it again first."
    assert (again(other).status, job.lanes.count()) == (Status.PENDING, 0)


def test_what_was_picked_up_is_left_to_its_worker_although_its_host_was_removed(host: Host, me: Me) -> None:
    job = picked_up_by(me, make_job("work", host))
    type(host).objects.update(removed_at=timezone.now())
    Sweeper().refuse_removed_hosts()
    assert again(job).status == Status.PENDING


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


@pytest.fixture
def paused(host: Host) -> Host:
    """A host that is paused."""
    type(host).objects.update(paused_at=timezone.now())
    return host


def test_a_paused_host_is_not_probed(sleeper: Job, paused: Host, gate: FakeGate) -> None:
    gate.down.add(paused.pk)
    change(sleeper, waiting_since=ago(minutes=31))
    Sweeper().tend()
    assert (state(sleeper), gate.probed) == ((Status.PENDING, ""), [])


@pytest.mark.parametrize("minutes", [1, 9, 60])
def test_a_pause_does_not_count_as_waiting(sleeper: Job, paused: Host, gate: FakeGate, minutes: int) -> None:
    gate.down.add(paused.pk)
    before = waited(change(sleeper, waiting_since=ago(minutes=20)))
    for _ in range(2 * minutes):  # a look each half minute, as if that time had passed
        Sweeper().tend()
        row = again(sleeper)
        assert row.waiting_since
        assert row.next_probe_at
        half = timedelta(seconds=30)
        change(row, waiting_since=row.waiting_since - half, next_probe_at=row.next_probe_at - half)
    type(paused).objects.update(paused_at=None)
    assert abs(waited(again(sleeper)) - before) < timedelta(seconds=20)
    Sweeper().tend()
    assert (state(sleeper), gate.probed) == ((Status.PENDING, ""), [paused.pk])


def test_a_wait_that_begins_in_a_pause_begins_at_its_end(paused: Host, gate: FakeGate) -> None:
    job = waiting_on(WaitingOn.HOST, make_job("copy", paused))
    Sweeper().tend()
    assert timedelta(0) <= waited(again(job)) < timedelta(seconds=20)


def test_what_waits_for_the_lock_of_a_paused_host_is_neither_woken_nor_failed(paused: Host) -> None:
    job = locked("copy", paused, 10_801)
    Sweeper().tend()
    assert (state(job), woken()) == ((Status.PENDING, ""), [])


def test_a_waiter_on_a_paused_host_keeps_no_other_host_waiting(paused: Host) -> None:
    peer = make_host()
    locked("bring", paused, 20, peer_host_id=peer.pk)
    young = locked("copy", peer, 10)
    Sweeper().tend()
    assert woken() == [young.pk]
