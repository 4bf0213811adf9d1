"""Exactly one beat fires; another takes over when it falls silent, by its own clock alone."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from jobs import beat, owed, schedules
from jobs.beat import RENEW, SILENT, VALID, Firing, Lease
from jobs.models import BeatLease, Job
from tests.jobs.schedule_rows import make_fire, make_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_celery_beat.models import PeriodicTask
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    return made


@pytest.fixture
def leader(clock: Clock) -> Lease:
    lease = Lease(name="a")
    lease.turn()
    return lease


@pytest.fixture
def stand_by(leader: Lease) -> Lease:
    lease = Lease(name="b")
    lease.turn()
    return lease


def live(clock: Clock, seconds: int, *turns: Callable[[], None]) -> None:
    for _ in range(seconds):
        clock.now += 1
        for turn in turns:
            turn()


def test_the_first_beat_leads(leader: Lease) -> None:
    assert leader.leads()
    assert str(BeatLease.objects.get()) == "a"


def test_a_second_beat_stands_by(leader: Lease, stand_by: Lease, clock: Clock) -> None:
    live(clock, 60, leader.turn, stand_by.turn)
    assert (leader.leads(), stand_by.leads()) == (True, False)


def test_a_silent_leader_is_followed(leader: Lease, stand_by: Lease, clock: Clock) -> None:
    live(clock, int(SILENT) - 1, stand_by.turn)
    assert not stand_by.leads()
    live(clock, 2, stand_by.turn)
    assert stand_by.leads()


def test_a_frozen_leader_knows_that_its_lease_is_over(leader: Lease, clock: Clock) -> None:
    clock.now += VALID
    assert not leader.leads()


def test_there_are_never_two_leaders(leader: Lease, stand_by: Lease, clock: Clock) -> None:
    for _ in range(int(SILENT) + 1):  # the leader is frozen
        live(clock, 1, stand_by.turn)
        assert not (leader.leads() and stand_by.leads())
    leader.turn()
    assert (leader.leads(), stand_by.leads()) == (False, True)


def test_of_two_that_stand_by_one_takes_over(leader: Lease, stand_by: Lease, clock: Clock) -> None:
    third = Lease(name="c")
    third.turn()
    live(clock, int(SILENT) + 5, stand_by.turn, third.turn)
    assert [stand_by.leads(), third.leads()].count(True) == 1


def test_a_leader_that_gives_up_is_followed_at_once(leader: Lease, stand_by: Lease) -> None:
    leader.give_up()
    stand_by.turn()
    assert (leader.leads(), stand_by.leads()) == (False, True)


def test_a_stand_by_that_gives_up_takes_nothing_away(leader: Lease, stand_by: Lease) -> None:
    stand_by.give_up()
    leader.turn()
    assert leader.leads()


def test_silence_counts_anew_after_the_database_was_away(leader: Lease, stand_by: Lease, clock: Clock) -> None:
    live(clock, 15, stand_by.turn)
    stand_by.forget()
    live(clock, 15, stand_by.turn)
    assert not stand_by.leads()


def test_a_turn_shows_that_this_process_can_write(leader: Lease, stand_by: Lease, clock: Clock) -> None:
    for lease in (leader, stand_by):
        assert lease.writes()
    clock.now += 10
    assert not leader.writes()
    assert not Lease().writes()


@pytest.mark.parametrize(("silence", "seconds"), [(20, 8.0), (600, RENEW), (3, 1.2)])
def test_the_lease_is_renewed_often_enough_to_show_it(settings: Settings, silence: int, seconds: float) -> None:
    settings.PIHERDER_SILENCE_SEC = silence
    assert beat.renewal() == pytest.approx(seconds)
    assert beat.renewal() < silence / 2


# --- firing ------------------------------------------------------------------------------------------------------


def due() -> PeriodicTask:
    return make_schedule(last_run_at=datetime(2026, 1, 2, tzinfo=UTC))


def test_the_leader_fires(leader: Lease) -> None:
    due()
    Firing(leader).turn()
    assert Job.objects.count() == 1


def test_a_stand_by_fires_nothing(stand_by: Lease) -> None:
    due()
    Firing(stand_by).turn()
    assert not Job.objects.exists()


def test_a_new_leader_carries_on_what_the_old_one_began(leader: Lease) -> None:
    make_fire(make_schedule(enabled=False), ended_at=None)
    Firing(leader).turn()
    assert Job.objects.count() == 1


def test_a_leader_looks_once_for_what_was_begun(leader: Lease) -> None:
    firing = Firing(leader)
    firing.turn()
    make_fire(make_schedule(enabled=False), ended_at=None)
    firing.turn()
    assert not Job.objects.exists()


def test_what_is_owed_is_looked_for_once_a_minute(leader: Lease, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    monkeypatch.setattr(owed, "make_up", lambda: looks.append(clock.now))
    live(clock, 130, leader.turn, Firing(leader).turn)
    assert [int(b - a) for a, b in pairwise(looks)] == [60, 60]


def test_chores_are_all_enabled_rows_but_schedules_of_jobs() -> None:
    due()
    row = make_schedule(task="tidy")
    chores = beat.LeaderScheduler.enabled_models_qs(object())  # type: ignore[arg-type]  # it needs nothing of itself
    assert [chore.pk for chore in chores if chore.name == row.name] == [row.pk]
    assert not chores.filter(task=schedules.SCHEDULE).exists()
