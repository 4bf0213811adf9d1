"""What a family holds while it works: its log, steps and progress, and the ways it is told to end."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from jobs.logs import JobLog
from jobs.registry import StopWork
from jobs.run import LOST_CLAIM, LiveRun, now_iso
from jobs.transitions import LostClaim
from tests.factories import change, events, make_job, running_on
from tests.jobs.gate import FakeSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosts.models import Host
    from jobs.models import Job
    from jobs.node import Me


@pytest.fixture
def job(host: Host, me: Me) -> Job:
    return running_on(me, make_job("work", host, {"tag": "x"}))


@pytest.fixture
def live(job: Job) -> Iterator[LiveRun]:
    assert job.attempt
    log = JobLog(job.pk)
    yield LiveRun(job, job.attempt, log, None)
    log.close()


def lines(live: LiveRun) -> list[str]:
    return [row.text for row in live.job_log.take()]


def taken_away(job: Job) -> None:
    """Another attempt holds the row now."""
    change(job, attempt=uuid.uuid4())


def test_work_knows_what_it_was_asked_for(live: LiveRun, job: Job) -> None:
    assert (live.params, live.job_id, live.host_id) == ({"tag": "x"}, job.pk, job.host_id)
    assert live.attempt == str(job.attempt)


def test_work_without_a_host_has_no_shell(live: LiveRun) -> None:
    with pytest.raises(RuntimeError, match="no host"):
        live.shell()


def test_the_shell_is_the_one_of_the_pick_up(job: Job) -> None:
    session, log = FakeSession(), JobLog(job.pk)
    assert job.attempt
    assert LiveRun(job, job.attempt, log, session).shell() is session
    log.close()


def test_a_step_is_on_the_row_in_the_log_and_among_the_events(live: LiveRun, job: Job) -> None:
    live.step("copy")
    job.refresh_from_db()
    assert (job.step, events(job)[-1], lines(live)) == ("copy", "step", ["== copy"])


def test_a_step_of_many_lines_is_one_line_that_fits(live: LiveRun, job: Job) -> None:
    live.step("a\nb" + "x" * 300)
    job.refresh_from_db()
    assert job.step.startswith("a\\nb")
    assert len(job.step) == 100


def test_a_step_of_a_row_that_was_taken_away_ends_the_work(live: LiveRun, job: Job) -> None:
    taken_away(job)
    with pytest.raises(LostClaim):
        live.step("copy")
    job.refresh_from_db()
    assert (job.step, "step" in events(job), lines(live)) == ("", False, [])


def test_no_step_begins_after_a_stop(live: LiveRun, job: Job) -> None:
    live.stop("cancel")
    with pytest.raises(StopWork):
        live.step("copy")
    job.refresh_from_db()
    assert job.step == ""


def test_only_the_newest_progress_is_written(live: LiveRun, job: Job) -> None:
    live.progress(1, 10, "one")
    live.progress(2, 10, "two")
    live.write_progress()
    job.refresh_from_db()
    assert (job.progress_done, job.progress_total, job.progress_label) == (2, 10, "two")


def test_progress_of_unknown_length_has_no_total(live: LiveRun, job: Job) -> None:
    live.progress(5)
    live.write_progress()
    job.refresh_from_db()
    assert (job.progress_done, job.progress_total, job.progress_label) == (5, None, "")


def test_progress_that_did_not_move_is_not_written_again(live: LiveRun, job: Job) -> None:
    live.progress(5)
    live.write_progress()
    change(job, progress_done=0)
    live.write_progress()
    job.refresh_from_db()
    assert job.progress_done == 0


def test_a_long_label_is_cut_to_what_the_row_holds(live: LiveRun, job: Job) -> None:
    live.progress(1, 2, "ü\r" * 200)
    live.write_progress()
    job.refresh_from_db()
    assert len(job.progress_label) == 200


def test_progress_of_a_row_that_was_taken_away_ends_the_work(live: LiveRun, job: Job) -> None:
    taken_away(job)
    live.progress(1)
    live.write_progress()
    with pytest.raises(LostClaim):
        live.check_cancel()
    job.refresh_from_db()
    assert job.progress_done != 1


def test_the_first_reason_to_stop_stays(live: LiveRun) -> None:
    live.stop("cancel")
    live.stop("time_limit")
    assert live.reason == "cancel"


def test_a_lost_claim_outranks_every_other_reason(live: LiveRun) -> None:
    live.stop("cancel")
    live.stop(LOST_CLAIM)
    live.stop("time_limit")
    assert live.reason == LOST_CLAIM


def test_what_must_happen_on_a_stop_happens_once(live: LiveRun) -> None:
    told: list[str] = []
    live.on_stop(lambda: told.append("killed"))
    live.stop("cancel")
    live.stop(LOST_CLAIM)
    assert told == ["killed"]


def test_an_action_that_comes_after_the_stop_happens_at_once(live: LiveRun) -> None:
    told: list[str] = []
    live.stop("cancel")
    live.on_stop(lambda: told.append("killed"))
    assert told == ["killed"]


def test_an_action_that_fails_keeps_no_other_from_its_turn(live: LiveRun) -> None:
    told: list[str] = []
    live.on_stop(lambda: 1 // 0)  # type: ignore[arg-type]  # what it returns does not matter
    live.on_stop(lambda: told.append("killed"))
    live.stop("cancel")
    assert told == ["killed"]


def test_a_clean_up_finishes_although_a_stop_was_asked(live: LiveRun) -> None:  # case C20
    live.stop("cancel")
    with live.shielded():
        live.check_cancel()
        with live.shielded():
            pass
        live.check_cancel()
    with pytest.raises(StopWork):
        live.check_cancel()


def test_a_clean_up_goes_on_without_the_claim_but_writes_nothing(live: LiveRun, job: Job) -> None:  # case C20
    live.stop(LOST_CLAIM)
    with live.shielded():
        live.check_cancel()
        with pytest.raises(LostClaim):
            live.step("start again")
    with pytest.raises(LostClaim):
        live.check_cancel()
    job.refresh_from_db()
    assert job.step == ""


def test_a_step_in_a_clean_up_finds_a_row_that_was_taken_away(live: LiveRun, job: Job) -> None:
    taken_away(job)
    with live.shielded(), pytest.raises(LostClaim):
        live.step("publish")
    assert "step" not in events(job)


def test_a_clean_up_that_fails_lifts_its_shield(live: LiveRun) -> None:
    with pytest.raises(ZeroDivisionError), live.shielded():
        raise ZeroDivisionError
    live.stop("cancel")
    with pytest.raises(StopWork):
        live.check_cancel()


def test_a_pause_ends_with_the_stop(live: LiveRun) -> None:
    timer, began = threading.Timer(0.1, live.stop, ["cancel"]), time.monotonic()
    timer.start()
    with pytest.raises(StopWork):
        live.pause(60)
    assert time.monotonic() - began < 30
    timer.join()


def test_a_pause_without_a_stop_takes_its_time(live: LiveRun) -> None:
    began = time.monotonic()
    live.pause(0.05)
    assert time.monotonic() - began >= 0.05


def test_moments_in_results_are_in_utc() -> None:
    assert now_iso().endswith("+00:00")
