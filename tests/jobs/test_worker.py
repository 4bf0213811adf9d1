"""A worker's own part: who it is, what its pool carries, and what it reports when a child dies."""

from __future__ import annotations

import itertools
import os
import platform
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.worker import state
from django.db import OperationalError, connection
from django.utils import timezone

from jobs import monitor, node, registry, tasks, transitions, worker
from jobs.models import Failure, Job, Status, WorkerNode
from jobs.monitor import Heart, Loop, Monitor, wait_for
from jobs.sweeper import Sweeper
from jobs.transitions import End, LostClaim
from piherder.house.processes import wait_until
from tests.factories import change, make_job, make_node, picked_up_by, running_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import Settings

    from hosts.models import Host
    from jobs.node import Me

pytestmark = pytest.mark.django_db


@pytest.fixture
def carries(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What Celery says that the pool carries."""

    def say(*requests: tuple[str, list[int]]) -> None:
        made = [SimpleNamespace(name=name, args=args) for name, args in requests]
        monkeypatch.setattr(state, "active_requests", made)

    return say


def test_only_jobs_count_as_carried(carries: Callable[..., None]) -> None:
    carries(("backup_job", [7]), ("tidy", [8]), ("exclusive_job", []))
    assert worker.carried() == {7}


def test_a_dead_child_s_job_fails(host: Host, me: Me, carries: Callable[..., None]) -> None:
    carries(("exclusive_job", [1]))
    job = running_on(me, make_job("work", host))
    worker.report_child(job.pk)
    job.refresh_from_db()
    assert (job.status, job.failure) == (Status.FAILED, Failure.WORKER_LOST)


def test_a_dead_child_s_pick_up_goes_back(host: Host, me: Me) -> None:
    job = picked_up_by(me, make_job("work", host))
    worker.report_child(job.pk)
    job.refresh_from_db()
    assert (job.status, job.attempt) == (Status.PENDING, None)


def test_a_copy_of_the_message_that_died_costs_nothing(host: Host, me: Me, carries: Callable[..., None]) -> None:
    job = running_on(me, make_job("work", host))
    carries(*[("exclusive_job", [job.pk])] * 2)
    worker.report_child(job.pk)
    job.refresh_from_db()
    assert job.status == Status.RUNNING


def test_another_worker_s_job_is_not_reported(host: Host, me: Me) -> None:
    job = running_on(make_node("w2@pi"), make_job("work", host))
    worker.report_child(job.pk)
    job.refresh_from_db()
    assert job.status == Status.RUNNING


def lost(error: Exception, job: Job) -> Job:
    """The job after Celery said that its child died of `error`."""
    worker.child_lost(sender=SimpleNamespace(name="exclusive_job"), exception=error, args=[job.pk])
    job.refresh_from_db()
    return job


def test_a_child_killed_at_the_hard_limit_ends_with_that(host: Host, me: Me) -> None:
    job = lost(TimeLimitExceeded(11_820), running_on(me, make_job("work", host)))
    assert (job.failure, job.error.split(":")[0]) == (Failure.TIME_LIMIT, "Stopped at its time limit")
    job = lost(WorkerLostError("killed"), running_on(me, make_job("work", host)))
    assert job.failure == Failure.WORKER_LOST


def test_a_dead_child_s_job_whose_host_can_tell_is_left_to_be_settled(host: Host, me: Me) -> None:
    job = lost(WorkerLostError("killed"), running_on(me, make_job("settled", host)))
    assert job.status == Status.RUNNING
    sweeper = Sweeper(me)
    for _ in range(2):
        sweeper.report_missing(me, looks=True)
    job.refresh_from_db()
    assert (job.status, job.summary) == (Status.SUCCEEDED, "The host says it ended well.")


@pytest.fixture
def cut(transactional_db: None) -> Callable[[], None]:
    """Ends every session of the database but its own, as a restart of the server does."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no server whose sessions could end")

    def end() -> None:
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        other.close()

    return end


def test_a_restart_of_the_database_keeps_a_worker_neither_from_its_drain_nor_from_its_end(
    cut: Callable[[], None], me: Me, host: Host
) -> None:
    jobs = [running_on(me, make_job(kind, host)) for kind in ("work", "look")]
    cut()
    connection.close()  # as after the start of the worker
    for job in jobs:
        worker.child_lost(sender=SimpleNamespace(name="exclusive_job"), exception=WorkerLostError(), args=[job.pk])
        cut()
    drained()
    cut()
    worker.gone()
    assert connection.connection is None
    row = WorkerNode.objects.get()
    assert (row.drain_at is not None, row.dead_why) == (True, "stopped")
    assert set(Job.objects.values_list("failure", flat=True)) == {Failure.WORKER_LOST}


def test_a_row_that_moved_meanwhile_is_left_alone(host: Host, me: Me, monkeypatch: pytest.MonkeyPatch) -> None:
    job = running_on(me, make_job("work", host))
    end = transitions.end_orphan

    def late(row: Job, how: End) -> None:
        change(Job.objects.get(pk=row.pk), status=Status.SUCCEEDED, finished_at=timezone.now())
        end(row, how)

    monkeypatch.setattr(transitions, "end_orphan", late)
    with pytest.raises(LostClaim):
        worker.report_child(job.pk)


def threads() -> list[threading.Thread]:
    """Those that write that this worker was told to stop."""
    return [each for each in threading.enumerate() if each.name == worker.DRAIN]


def drained() -> None:
    """SIGTERM came, and its writer has ended."""
    worker.drain()
    assert wait_until(lambda: not threads(), 30)


@pytest.mark.django_db(transaction=True)
def test_a_stop_is_written_for_the_jobs_to_see(me: Me) -> None:
    drained()
    first = WorkerNode.objects.get().drain_at
    drained()
    assert first
    assert WorkerNode.objects.get().drain_at == first


@pytest.mark.django_db(transaction=True)
def test_a_stop_while_the_database_is_away_is_written_when_it_is_back(
    me: Me, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "DRAIN_PAUSE", 0.05)
    with monkeypatch.context() as away:
        for name in ("NAME", "PORT"):  # of a file that cannot be, and of nobody
            away.setitem(connection.settings_dict, name, {"NAME": "/nowhere/db", "PORT": "1"}[name])
        worker.drain()
        assert wait_until(lambda: "drain: the database is away" in caplog.text, 30)
    assert wait_until(lambda: not threads(), 30)
    assert WorkerNode.objects.get().drain_at


def test_a_stop_of_what_is_no_worker_says_nothing(db: None) -> None:
    drained()


def test_a_worker_that_has_drained_is_gone(me: Me) -> None:
    worker.gone()
    row = WorkerNode.objects.get()
    assert (row.dead_why, row.dead_at is not None) == ("stopped", True)


def ended_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_an_earlier_boot_whose_process_is_gone_is_replaced_at_once(db: None) -> None:
    # case H14
    make_node("w1@pi", pid=ended_process(), machine=platform.node())
    worker.replace_earlier_boots("w1@pi")
    assert WorkerNode.objects.get().dead_why == "replaced by a new start of the same name"


def test_a_silent_earlier_boot_of_another_machine_is_replaced(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WATCH_BEATS", 0.05)
    make_node("w1@pi", machine="elsewhere")
    worker.replace_earlier_boots("w1@pi")
    assert WorkerNode.objects.get().dead_at


def test_a_live_worker_of_this_name_keeps_its_place(
    db: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # case H14
    other = make_node("w1@pi", machine="elsewhere")

    def beating(answer: Callable[[], bool], seconds: float) -> bool:
        WorkerNode.objects.filter(pk=other.boot).update(beats=9)
        return answer()

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(worker, "wait_for", beating)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit, match="78"):
        worker.replace_earlier_boots("w1@pi")
    assert "A worker named w1@pi is already running: start this one with another name" in capfd.readouterr().err
    assert not WorkerNode.objects.get().dead_at


def step_of(name: str) -> Me:
    me = node.become(name)
    worker.take_place(me, slots=2, queues=["celery"])
    return me


def test_a_boot_takes_the_place_of_its_name(db: None) -> None:
    make_node("w1@pi", pid=ended_process(), machine=platform.node())
    me = step_of("w1@pi")
    row = WorkerNode.objects.get(dead_at=None)
    assert (row.boot, row.slots, row.queues, row.machine) == (me.boot, 2, ["celery"], platform.node())


@pytest.fixture
def rival(db: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Another worker of the name comes in between our look and our insert; it is silent unless `pid` lives."""

    def come(pid: int) -> None:
        look, looks = worker.replace_earlier_boots, itertools.count()

        def late(name: str) -> None:
            look(name)
            if next(looks) == 0:
                make_node(name, pid=pid, machine=platform.node())

        monkeypatch.setattr(worker, "replace_earlier_boots", late)

    return come


def test_of_two_that_start_at_once_a_dead_one_is_replaced(rival: Callable[..., None]) -> None:
    rival(pid=ended_process())
    me = step_of("w1@pi")
    assert [row.boot for row in WorkerNode.objects.filter(dead_at=None)] == [me.boot]


def test_of_two_that_start_at_once_the_second_leaves(
    rival: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(worker, "wait_for", lambda answer, seconds: True)
    monkeypatch.setattr(os, "_exit", leave)
    rival(pid=1)
    with pytest.raises(SystemExit, match="78"):
        step_of("w1@pi")
    assert "A worker named w1@pi is already running" in capfd.readouterr().err
    assert WorkerNode.objects.get().dead_at is None


def test_a_thread_that_vanishes_hides_no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = os.listdir("/proc/self/task")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        monkeypatch.setattr(os, "listdir", lambda folder: ["999999999", *threads])
        assert child.pid in worker._children()
        child.communicate(b"\n")


def test_each_boot_is_another() -> None:
    assert node.become("w@pi") != node.become("w@pi")
    assert node.me().name == "w@pi"


def test_a_beat_after_the_sign_off_is_no_burial(me: Me, monkeypatch: pytest.MonkeyPatch) -> None:
    heart = Heart(me, lambda: pytest.fail("it went by itself"))
    monkeypatch.setattr(worker, "_heart", [heart])
    worker.gone()
    heart.beat()
    assert WorkerNode.objects.get().dead_why == "stopped"


# --- the threads -------------------------------------------------------------------------------------------------


def test_a_heart_moves_its_counter(me: Me) -> None:
    Heart(me, lambda: pytest.fail("alive")).beat()
    assert WorkerNode.objects.get().beats == 1


def test_a_heart_that_finds_itself_dead_says_so(me: Me) -> None:
    WorkerNode.objects.update(dead_at=timezone.now())
    buried: list[int] = []
    Heart(me, lambda: buried.append(1)).beat()
    assert (buried, WorkerNode.objects.get().beats) == ([1], 0)


def test_a_beat_shows_that_this_process_can_write(me: Me, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PIHERDER_SILENCE_SEC = 20
    heart, now = Heart(me, lambda: None), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert not heart.writes()
    heart.beat()
    now[0] = 109.0
    assert heart.writes()
    now[0] = 110.0
    assert not heart.writes()


def test_a_beat_that_found_no_row_shows_nothing(me: Me) -> None:
    WorkerNode.objects.all().delete()
    heart = Heart(me, lambda: None)
    heart.beat()
    assert not heart.writes()


@pytest.mark.parametrize(("error", "forgets"), [(OperationalError("gone"), True), (ZeroDivisionError(), False)])
@pytest.mark.django_db(transaction=True)
def test_a_loop_survives_and_forgets_only_after_the_database(error: Exception, forgets: bool) -> None:
    turns, lost, third = [0], [0], threading.Event()

    def turn() -> None:
        turns[0] += 1
        if turns[0] >= 3:
            third.set()
        raise error

    def forget() -> None:
        lost[0] += 1

    loop = Loop("test", 0.01, turn, forget)
    loop.start()
    assert third.wait(10)
    loop.finish()
    loop.join(10)
    assert bool(lost[0]) is forgets


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no statement time-out")
def test_a_loop_lets_no_statement_hang() -> None:
    limits: list[str] = []
    done = threading.Event()

    def turn() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            limits.append(cursor.fetchone()[0])
        done.set()

    loop = Loop("test", 60, turn)
    loop.start()
    assert done.wait(10)
    loop.finish()
    loop.join(10)
    assert limits == ["5s"]


def test_hosts_that_are_slow_to_answer_delay_no_watch(me: Me) -> None:
    names = [loop.name for loop in Monitor(Sweeper(me), Heart(me, lambda: None)).loops]
    assert names == ["watch", "sweeper", "heart"]


def test_waiting_ends_with_the_answer() -> None:
    answers = iter([False, False, True])
    assert wait_for(lambda: next(answers), 5, step=0.001)
    assert not wait_for(lambda: False, 0.01, step=0.001)
    assert monitor.STATEMENT_MS == 5000


# --- messages ----------------------------------------------------------------------------------------------------


def test_a_message_carries_the_id_alone_under_the_row_s_own_task_id(host: Host) -> None:
    job = make_job("work", host)
    assert tasks.publish(job.pk)
    (message,) = tasks.broker().lrange("celery", 0, -1)
    assert str(job.celery_task_id) in str(message)
    job.refresh_from_db()
    assert (job.publishes, job.published_at is not None) == (1, True)


@pytest.mark.parametrize("change_to", [{"attempt": "11111111-1111-1111-1111-111111111111"}, {"status": "failed"}])
def test_a_job_that_is_no_longer_free_is_not_published(host: Host, change_to: dict[str, object]) -> None:
    finished = {"finished_at": timezone.now()} if "status" in change_to else {}
    job = change(make_job("work", host), **change_to, **finished)
    assert not tasks.publish(job.pk)
    assert tasks.queue_depths(["celery"]) == {"celery": 0}


def test_a_kind_that_no_longer_exists_is_sent_where_it_is_told_so(host: Host) -> None:
    assert tasks.task_of(change(make_job("work", host), kind="gone")) == "exclusive_job"


def test_every_task_of_every_kind_is_declared() -> None:
    assert {family.task for family in registry.kinds()} <= set(tasks.TASKS)


def test_depths_are_unknown_without_a_broker(redis_away: object) -> None:
    assert tasks.queue_depths(["celery", "nmap"]) == {"celery": None, "nmap": None}
