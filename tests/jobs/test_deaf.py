"""A worker that beats but takes no messages ends itself for its supervisor; one that works or may not start stays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from celery.worker import state
from django.utils import timezone

from jobs import tasks, worker
from jobs.deaf import LONGEST, Ears, Look, idle_since
from jobs.models import EngineSettings, WorkerNode
from jobs.monitor import Heart

if TYPE_CHECKING:
    from jobs.node import Me

pytestmark = pytest.mark.django_db
IDLE = Look(at=100.0, taken=7, carries=0, waiting=3, may_start=True)


def later(**seen: Any) -> Look:
    return replace(IDLE, at=110.0, **seen)


# --- the decision ------------------------------------------------------------------------------------------------


def test_messages_before_an_idle_worker_are_counted_from_the_first_look() -> None:
    assert idle_since(None, None, IDLE) == 100.0
    assert idle_since(100.0, IDLE, later()) == 100.0


@pytest.mark.parametrize("seen", [{"carries": 1}, {"waiting": 0}, {"waiting": None}, {"may_start": False}])
def test_a_worker_with_a_reason_hears(seen: dict[str, Any]) -> None:
    assert idle_since(100.0, IDLE, later(**seen)) is None


def test_a_message_taken_meanwhile_counts_anew() -> None:
    assert idle_since(100.0, IDLE, later(taken=8)) == 110.0


# --- the watch ---------------------------------------------------------------------------------------------------


class Worker:
    """What the watch sees of a worker, and whether it was told that it is deaf."""

    def __init__(self, me: Me) -> None:
        self.messages, self.carries, self.calls = 0, 0, 0
        self.ears = Ears(me.boot, ["celery"], lambda: self.messages, lambda: self.carries, self.deaf)

    def deaf(self) -> None:
        self.calls += 1

    def watch(self, seconds: float) -> bool:
        """Whether it was called deaf in so many seconds."""
        for second in range(0, int(seconds) + 1, 10):
            self.ears.turn(float(second))
        return bool(self.calls)


@pytest.fixture
def idle(me: Me) -> Worker:
    """A message lies in its queue."""
    tasks.broker().rpush("celery", "{}")
    return Worker(me)


def test_a_deaf_worker_is_found(idle: Worker) -> None:
    # case H05
    assert not idle.watch(LONGEST - 10)
    assert idle.watch(LONGEST)


def test_an_empty_queue_says_nothing(idle: Worker) -> None:
    tasks.broker().delete("celery")
    assert not idle.watch(600)


def test_a_worker_that_works_is_left_alone(idle: Worker) -> None:
    idle.carries = 1
    assert not idle.watch(600)


def test_work_that_begins_at_the_last_moment_is_left_alone(idle: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([0] * 7 + [1])  # seven looks, and one more before it ends itself
    idle.ears.carries = lambda: next(counts)
    assert not idle.watch(LONGEST)


@pytest.mark.parametrize("why", ["held", "drains"])
def test_a_worker_that_may_not_start_is_left_alone(idle: Worker, why: str) -> None:
    if why == "held":
        EngineSettings.objects.create(pk=1, held_at=timezone.now())
    else:
        WorkerNode.objects.update(drain_at=timezone.now())
    assert not idle.watch(600)


def test_without_a_broker_nothing_is_known(idle: Worker, redis_away: object) -> None:
    assert not idle.watch(600)


def test_an_outage_of_the_database_counts_anew(idle: Worker) -> None:
    idle.watch(LONGEST - 10)
    idle.ears.forget()
    idle.ears.turn(LONGEST)
    assert not idle.calls


def test_it_leaves_with_a_code_of_its_own_and_says_why(me: Me, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(worker, "_leave", left.append)
    monkeypatch.setattr(worker, "_heart", [Heart(me, lambda: pytest.fail("it was no burial"))])
    worker.not_heard()
    worker._heart[0].beat()
    assert (left, WorkerNode.objects.get().dead_why) == ([75], "it took no messages any more")


def test_what_celery_holds_counts_from_its_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "active_requests", [])
    monkeypatch.setattr(state, "reserved_requests", ["waits for a slot"])
    assert worker.held() == 1
