"""The thread beside the work: it only asks the work to end, says why, and outlives whatever goes wrong around it."""

from __future__ import annotations

import os
import threading
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError
from django.utils import timezone

from jobs import beside, mutex, transitions
from jobs.beside import CANCEL, CLEAN_UP_PATIENCE, LOOK, PATIENCE, Beside
from jobs.logs import JobLog
from jobs.models import Failure, Job, JobLine, WorkerNode
from jobs.mutex import HostMutex
from jobs.registry import StopWork
from jobs.run import LOST_CLAIM, LiveRun
from jobs.transitions import LostClaim
from tests.factories import events, make_job, running_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import Settings

    from hosts.models import Host
    from jobs.node import Me

HOUR = timedelta(hours=1)


@pytest.fixture
def job(host: Host, me: Me) -> Job:
    return running_on(me, make_job("copy", host))


@pytest.fixture
def live(job: Job) -> Iterator[LiveRun]:
    assert job.attempt
    log = JobLog(job.pk)
    yield LiveRun(job, job.attempt, log, None)
    log.close()


@pytest.fixture
def guard(live: LiveRun, me: Me) -> Beside:
    """Not started: the tests tick it by hand, at moments of their own."""
    return Beside(live, me.boot, HOUR, HostMutex.of([live.host_id or 0], live.job_id, live.attempt_id), 0.0)


def test_calm_work_is_left_alone(guard: Beside, live: LiveRun) -> None:
    for second in range(10):
        guard.tick(float(second))
    assert live.reason == ""


def test_a_cancel_is_seen_within_two_seconds(guard: Beside, live: LiveRun, job: Job) -> None:
    guard.tick(10)
    transitions.ask_cancel(job, "ann")
    guard.tick(10 + LOOK)
    assert live.reason == CANCEL
    with pytest.raises(StopWork, match="cancel"):
        live.check_cancel()


def test_the_time_limit_stops_the_work(guard: Beside, live: LiveRun) -> None:
    guard.tick(3599)
    assert live.reason == ""
    guard.tick(3600)
    assert live.reason == Failure.TIME_LIMIT


def test_a_drain_gives_a_grace(guard: Beside, live: LiveRun, settings: Settings) -> None:
    settings.PIHERDER_DRAIN_GRACE_SEC = 20
    WorkerNode.objects.update(drain_at=timezone.now())
    guard.tick(100)
    guard.tick(119)
    assert live.reason == ""
    guard.tick(121)
    assert live.reason == Failure.WORKER_STOPPED


def test_the_mutex_is_renewed_in_time(guard: Beside, job: Job) -> None:
    name = mutex.key(job.host_id or 0)
    guard.tick(0)
    mutex.client().pexpire(name, 1000)
    guard.tick(21)
    assert int(mutex.client().pttl(name)) > 50_000


def test_a_lock_that_another_holds_stops_the_work(guard: Beside, live: LiveRun, me: Me, host: Host) -> None:
    rival = running_on(me, make_job("bring", host))
    mutex.client().set(mutex.key(host.pk), f"{rival.pk}:{rival.attempt}")
    guard.tick(21)
    assert live.reason == Failure.LOCK_LOST


def test_a_redis_that_is_away_stops_nothing(guard: Beside, live: LiveRun, redis_away: object) -> None:
    guard.tick(21)
    assert live.reason == ""


@pytest.mark.parametrize("change", [{"attempt": uuid.UUID(int=1)}, {"status": "failed", "finished_at": timezone.now()}])
def test_a_row_that_is_no_longer_ours_stops_the_work(guard: Beside, live: LiveRun, change: dict[str, object]) -> None:
    Job.objects.update(**change)
    guard.tick(0)
    assert live.reason == LOST_CLAIM
    with pytest.raises(LostClaim):
        live.check_cancel()


def test_a_row_that_was_deleted_stops_the_work(guard: Beside, live: LiveRun) -> None:
    Job.objects.all().delete()
    guard.tick(0)
    assert live.reason == LOST_CLAIM


def test_log_and_progress_are_written_while_it_runs(guard: Beside, live: LiveRun) -> None:
    live.log("one")
    live.progress(1, 2, "files")
    guard.tick(0)
    assert JobLine.objects.get().text == "one"
    assert Job.objects.get().percent == 50


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Signals that the guard sent to its own process."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    return sent


def test_a_clean_up_is_bounded_by_a_time_of_its_own(guard: Beside, live: LiveRun, killed: list[int]) -> None:
    live.stop(CANCEL)
    with live.shielded():
        guard.tick(100)
        guard.tick(100 + CLEAN_UP_PATIENCE)
        assert killed == []
        guard.tick(101 + CLEAN_UP_PATIENCE)
    assert killed == [9]


def test_the_time_of_a_clean_up_does_not_count_as_ignoring_the_stop(
    guard: Beside, live: LiveRun, killed: list[int]
) -> None:
    live.stop(CANCEL)
    guard.tick(100)
    with live.shielded():
        guard.tick(100 + 2 * PATIENCE)
    guard.tick(100 + 3 * PATIENCE)
    assert killed == []
    guard.tick(101 + 3 * PATIENCE)
    assert killed == [9]


def test_work_that_will_not_end_is_killed_with_its_process(guard: Beside, live: LiveRun, killed: list[int]) -> None:
    live.stop(CANCEL)
    guard.tick(100)
    guard.tick(100 + PATIENCE)
    assert killed == []
    guard.tick(101 + PATIENCE)
    assert killed == [9]


@pytest.mark.parametrize("error", [OperationalError("gone"), ZeroDivisionError(), OSError("disk")])
def test_nothing_that_goes_wrong_ends_the_guard(
    guard: Beside, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, third = [0], threading.Event()

    def tick(now: float) -> None:
        ticks[0] += 1
        if ticks[0] == 3:
            third.set()
        raise error

    monkeypatch.setattr(beside, "TICK", 0.01)
    monkeypatch.setattr(guard, "tick", tick)
    guard.start()
    assert third.wait(10)
    guard.finish()
    assert not guard.is_alive()


# --- the live run ------------------------------------------------------------------------------------------------


def test_the_first_reason_stays(live: LiveRun) -> None:
    live.stop(CANCEL)
    live.stop(Failure.TIME_LIMIT)
    assert live.reason == CANCEL


def test_a_lost_claim_outranks_every_reason(live: LiveRun) -> None:
    live.stop(CANCEL)
    live.stop(LOST_CLAIM)
    with pytest.raises(LostClaim):
        live.check_cancel()


def test_what_to_do_on_a_stop_is_done_once(live: LiveRun) -> None:
    done: list[int] = []
    live.on_stop(lambda: done.append(1))
    live.stop(CANCEL)
    live.stop(LOST_CLAIM)
    assert done == [1]


def test_what_comes_after_the_stop_is_done_at_once(live: LiveRun) -> None:
    done: list[int] = []
    live.stop(CANCEL)
    live.on_stop(lambda: done.append(1))
    assert done == [1]


def test_an_action_that_breaks_keeps_no_other_from_its_turn(live: LiveRun) -> None:
    done: list[int] = []
    live.on_stop(lambda: done.append(1 // 0))
    live.on_stop(lambda: done.append(1))
    live.stop(CANCEL)
    assert done == [1]


def test_a_clean_up_is_shielded_from_a_stop_and_from_a_lost_claim(live: LiveRun) -> None:
    with live.shielded():
        live.stop(CANCEL)
        live.check_cancel()
        live.stop(LOST_CLAIM)
        live.check_cancel()


def test_a_pause_ends_with_the_stop(live: LiveRun) -> None:
    threading.Timer(0.05, live.stop, [CANCEL]).start()
    with pytest.raises(StopWork):
        live.pause(60)


def test_a_step_is_a_fenced_write_with_an_event(live: LiveRun, job: Job) -> None:
    live.step("copy\nfiles")
    job.refresh_from_db()
    assert (job.step, events(job)[-1]) == ("copy\\nfiles", "step")


def test_a_step_of_a_lost_job_ends_the_work(live: LiveRun, job: Job) -> None:
    Job.objects.update(attempt=uuid.uuid4())
    with pytest.raises(LostClaim):
        live.step("publish")
    job.refresh_from_db()
    assert (job.step, events(job)) == ("", ["requested"])


def test_work_without_a_host_has_no_shell(live: LiveRun) -> None:
    with pytest.raises(RuntimeError, match="has no host"):
        live.shell()
