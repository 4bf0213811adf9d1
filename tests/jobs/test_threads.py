"""The threads beside Celery: a loop outlives whatever happens in it, a heart costs little, a lease has one holder."""

from __future__ import annotations

import itertools
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError, connection
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from jobs import schedules
from jobs.beat import SILENT, Firing, LeaderScheduler, Lease
from jobs.models import BeatLease, WorkerNode
from jobs.monitor import Heart, Loop, Monitor, wait_for
from jobs.sweeper import Sweeper
from piherder.celery import app
from tests.factories import make_node
from tests.jobs.schedule_rows import make_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

threaded = pytest.mark.django_db(transaction=True)


def looped(turn: Callable[[], None], until: threading.Event, **options: bool) -> Loop:
    """A loop that ran until the event, ended."""
    loop = Loop("test", 0.01, turn, **options)  # type: ignore[arg-type]  # only durable is passed on
    loop.start()
    assert until.wait(10)
    loop.finish()
    loop.join(10)
    assert not loop.is_alive()
    return loop


# --- loops -------------------------------------------------------------------------------------------------------


@threaded
def test_a_loop_ends_with_the_turn_it_is_in() -> None:
    began, over = threading.Event(), threading.Event()

    def turn() -> None:
        began.set()
        over.wait(0.2)
        done.append(1)

    done: list[int] = []
    looped(turn, began)
    assert done == [1]


@threaded
def test_a_loop_that_never_began_can_be_ended() -> None:
    loop = Loop("test", 60, lambda: pytest.fail("ended before"))
    loop.finish()
    loop.start()
    loop.join(10)
    assert not loop.is_alive()


@threaded
def test_a_loop_pauses_between_its_turns() -> None:
    moments: list[float] = []
    third = threading.Event()

    def turn() -> None:
        moments.append(time.monotonic())
        if len(moments) == 3:
            third.set()

    loop = Loop("test", 0.1, turn)
    loop.start()
    assert third.wait(10)
    loop.finish()
    loop.join(10)
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(moments))


@threaded
def test_a_loop_has_a_connection_of_its_own() -> None:
    seen: list[int] = []
    done = threading.Event()

    def turn() -> None:
        connection.ensure_connection()
        seen.append(id(connection.connection))
        done.set()

    connection.ensure_connection()
    looped(turn, done)
    assert id(connection.connection) not in seen


@threaded
def test_a_lost_database_is_met_with_a_new_connection() -> None:
    seen: list[object] = []
    done = threading.Event()

    def turn() -> None:
        connection.ensure_connection()
        seen.append(connection.connection)
        if len(seen) == 2:
            done.set()
        raise OperationalError("the server went away")

    looped(turn, done)
    assert seen[0] is not seen[1]


@threaded
@pytest.mark.skipif(connection.vendor != "sqlite", reason="a matter of SQLite")
@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 1)])
def test_only_what_may_be_lost_is_not_synced_to_an_sd_card(durable: bool, synchronous: int) -> None:
    found: list[int] = []
    done = threading.Event()

    def turn() -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA synchronous")
            found.append(cursor.fetchone()[0])
        done.set()

    looped(turn, done, durable=durable)
    assert found[0] == synchronous


@threaded
def test_a_loop_names_itself_when_something_fails(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def turn() -> None:
        done.set()
        raise ZeroDivisionError

    looped(turn, done)
    assert "test" in caplog.messages
    assert "ZeroDivisionError" in caplog.text


@threaded
def test_a_monitor_beats_by_itself_and_can_be_ended() -> None:
    me = make_node()
    monitor = Monitor(Sweeper(me), Heart(me, lambda: None))
    monitor.start()
    assert wait_for(lambda: WorkerNode.objects.get().beats > 0, 10, step=0.02)
    monitor.finish()
    for loop in monitor.loops:
        loop.join(10)
        assert not loop.is_alive()


def test_beat_has_no_heart() -> None:
    assert [loop.name for loop in Monitor(Sweeper()).loops] == ["watch", "sweeper"]


@pytest.mark.django_db
def test_a_heart_moves_its_own_counter_alone() -> None:
    me, other = make_node("a@pi"), make_node("b@pi")
    Heart(me, lambda: pytest.fail("alive")).beat()
    assert WorkerNode.objects.get(pk=other.boot).beats == 0


@pytest.mark.django_db
def test_a_heart_whose_row_was_removed_is_buried_too() -> None:
    me = make_node()
    WorkerNode.objects.all().delete()
    buried: list[int] = []
    Heart(me, lambda: buried.append(1)).beat()
    assert buried == [1]


def test_waiting_asks_again_and_again_until_its_time_is_over() -> None:
    asked = itertools.count()
    assert not wait_for(lambda: next(asked) < 0, 0.1, step=0.01)
    assert next(asked) > 2


# --- beat --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("hour", range(0, 24, 4))
def test_a_chore_of_any_hour_is_kept(hour: int) -> None:
    row = CrontabSchedule.objects.create(minute="30", hour=str(hour))
    PeriodicTask.objects.create(name="chore", task="tidy", crontab=row)
    scheduler = LeaderScheduler.__new__(LeaderScheduler)
    assert [chore.name for chore in scheduler.enabled_models_qs() if chore.name == "chore"] == ["chore"]


@pytest.mark.django_db
def test_a_schedule_of_jobs_is_no_chore_and_a_disabled_chore_rests() -> None:
    make_schedule()
    every = IntervalSchedule.objects.create(every=1, period="days")
    PeriodicTask.objects.create(name="off", task="tidy", interval=every, enabled=False)
    names = set(LeaderScheduler.__new__(LeaderScheduler).enabled_models_qs().values_list("task", "name"))
    assert not [pair for pair in names if pair[0] == schedules.SCHEDULE or pair[1] == "off"]


@pytest.mark.django_db
def test_a_lease_given_up_is_taken_at_the_next_turn() -> None:  # case H09
    first, second = Lease(), Lease()
    first.turn()
    second.turn()
    assert (first.leads(), second.leads()) == (True, False)
    first.give_up()
    second.turn()
    assert (first.leads(), second.leads()) == (False, True)


@pytest.mark.django_db
def test_giving_up_what_one_does_not_hold_takes_it_from_nobody() -> None:  # case H09
    first, second = Lease(), Lease()
    first.turn()
    second.give_up()
    first.turn()
    assert first.leads()
    assert BeatLease.objects.get().holder == first.me


@pytest.mark.django_db
def test_a_stand_by_that_lost_the_database_counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("jobs.beat.time.monotonic", lambda: clock[0])
    first, second = Lease(), Lease()
    first.turn()
    second.turn()
    clock[0] += SILENT - 1
    second.forget()
    clock[0] += 2
    second.turn()
    assert not second.leads()
    clock[0] += SILENT
    second.turn()
    assert second.leads()


@pytest.mark.django_db
def test_a_stand_by_fires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "run_due", lambda: pytest.fail("it does not lead"))
    Firing(Lease()).turn()


def test_the_app_s_scheduler_is_ours() -> None:
    assert app.conf.beat_scheduler == "jobs.beat:LeaderScheduler"
    assert app.conf.beat_max_loop_interval == 2
