"""Dead workers, what they leave behind, and how it is settled: each ended by whoever sees it first."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import losses, transitions
from jobs.models import Failure, Job, Lane, Status, WorkerNode
from jobs.registry import HostDown, JobFailed, Summary
from jobs.sweeper import Sweeper
from tests.factories import (
    change,
    events,
    fence,
    make_job,
    make_node,
    picked_up_by,
    running_on,
)
from tests.jobs.kinds import Settled
from tests.jobs.looks import again, ago, state

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.models import Host
    from jobs.node import Me

pytestmark = pytest.mark.django_db
SILENCE = 20  # seconds; the default of PIHERDER_SILENCE_SEC


def watched(watch: Sweeper, seconds: int, start: int = 0) -> None:
    """So many seconds of watching, at the pace of a sweeper."""
    for second in range(start, start + seconds + 1, 2):
        watch.watch(float(second))


def dead(me: Me) -> bool:
    return WorkerNode.objects.get(pk=me.boot).dead_at is not None


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


def test_silence_counts_only_while_this_process_can_write() -> None:
    node = make_node()
    blocked = [True]
    watch = Sweeper(writes=lambda: not blocked[0])
    watched(watch, SILENCE + 10)
    assert not dead(node)
    blocked[0] = False
    watched(watch, SILENCE - 2, start=SILENCE + 12)
    assert not dead(node)
    watched(watch, 4, start=2 * SILENCE + 12)
    assert dead(node)


def test_a_lock_that_is_given_back_leaves_time_to_the_others() -> None:
    node = make_node()
    blocked = [False]
    watch = Sweeper(writes=lambda: not blocked[0])
    watched(watch, SILENCE - 4)
    blocked[0] = True
    watch.watch(SILENCE - 2)
    blocked[0] = False
    watched(watch, 10, start=SILENCE)
    assert not dead(node)


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


@pytest.mark.parametrize("state", [picked_up_by, running_on])
def test_a_fence_stands_as_long_as_its_attempt(host: Host, me: Me, state: Callable[[Me, Job], Job]) -> None:
    fence(state(me, make_job("copy", host)))
    Sweeper().drop_stale_fences()
    assert Lane.objects.filter(name=Lane.FENCE).exists()


@pytest.mark.parametrize("fields", [{"attempt": None}, {"attempt": uuid.uuid4()}, {"status": Status.FAILED}])
def test_a_fence_of_an_attempt_that_is_over_goes(host: Host, me: Me, fields: dict[str, Any]) -> None:
    job = picked_up_by(me, make_job("copy", host))
    fence(job)
    change(job, finished_at=timezone.now() if "status" in fields else None, **fields)
    Sweeper().tend()
    assert [lane.name for lane in Lane.objects.all()] == ["backup"]
