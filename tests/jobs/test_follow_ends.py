"""Following a job through everything that may happen to it: it waits, changes hands, is cancelled, fails, is left."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError
from django.utils import timezone
from rich.console import Console

from jobs import follow, hints
from jobs.follow import Follower, LiveScreen, PlainScreen, QuietScreen, no_worker, title, waiting_reason, without_row
from jobs.models import Job, JobLine, Status, WaitingOn, WorkerNode
from jobs.transitions import End, end_pending
from tests.commands import herder
from tests.factories import change, lines, make_host, make_job, make_node, picked_up_by, running_on, waiting_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    from hosts.models import Host
    from tests.jobs.conftest import CutRedis

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(host: Host) -> Job:
    make_node(queues=["celery"])
    return make_job("work", host)


class Seen:
    """A follower of one job and what it showed."""

    def __init__(self, *jobs: Job) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.follower = Follower(list(jobs), PlainScreen(self.lines.append, self.notes.append, several=len(jobs) > 1))

    def look(self) -> str:
        """The lines that one more look brought."""
        before = len(self.lines)
        self.follower.look()
        return "\n".join(self.lines[before:])


def finished(job: Job, status: Status = Status.SUCCEEDED, **fields: object) -> Job:
    return change(job, status=status, finished_at=timezone.now(), **fields)


# --- what changes is told once


def test_a_host_that_is_down_is_told_with_its_reason(job: Job) -> None:
    seen = Seen(job)
    seen.look()
    waiting_on(WaitingOn.HOST, job, waiting_why="pi is off.", next_probe_at=timezone.now() + timedelta(seconds=30.5))
    assert seen.look() == f"{title(job)}: waiting on host (pi is off, next look in 30 s)"


def test_the_next_look_alone_is_no_news(job: Job) -> None:
    seen = Seen(waiting_on(WaitingOn.HOST, job, waiting_why="pi is off."))
    seen.look()
    change(job, next_probe_at=timezone.now() + timedelta(minutes=1))
    assert seen.look() == ""


def test_another_reason_is_news(job: Job) -> None:
    seen = Seen(waiting_on(WaitingOn.HOST, job, waiting_why="pi is off."))
    seen.look()
    change(job, waiting_why="pi refuses.")
    assert "(pi refuses, " in seen.look()


def test_who_holds_the_lock_is_told(job: Job) -> None:
    seen = Seen(waiting_on(WaitingOn.LOCK, job, waiting_why="Job 7 copies.", next_probe_at=None))
    assert seen.look().endswith(": waiting on lock (Job 7 copies)")


def test_a_job_that_goes_to_another_worker_says_so(job: Job) -> None:
    seen = Seen(picked_up_by(make_node("w7@pi"), job))
    assert seen.look().endswith(": starting")
    change(job, attempt=None, boot=None, node="")
    assert seen.look().endswith(": queued")
    running_on(make_node("w2@pi"), job)
    assert seen.look().endswith(": running on w2@pi")


def test_each_step_is_told(job: Job) -> None:
    seen = Seen(running_on(make_node("w7@pi"), job))
    for step in ("copy", "publish"):
        change(job, step=step)
        assert seen.look().endswith(f", step {step}")


def test_a_cancellation_is_told_before_the_end(job: Job) -> None:
    seen = Seen(running_on(make_node("w7@pi"), job))
    seen.look()
    change(job, cancel_requested_at=timezone.now())
    assert seen.look().endswith(": cancelling on w7@pi")


def test_progress_alone_is_no_line(job: Job) -> None:
    seen = Seen(running_on(make_node("w7@pi"), job))
    seen.look()
    change(job, progress_done=5, progress_total=10, progress_label="4 MB/s")
    assert seen.look() == ""


def test_the_end_is_left_to_the_command(job: Job) -> None:
    seen = Seen(job)
    seen.look()
    finished(job, Status.FAILED, error="It broke.", failure="error")
    assert seen.look() == ""
    assert not seen.follower.jobs[0].is_active


def test_the_last_lines_of_an_ended_job_are_still_shown(job: Job) -> None:
    seen = Seen(running_on(make_node("w7@pi"), job))
    seen.look()
    lines(job, JobLine(job_id=job.pk, number=1, text="the last word"))
    finished(job)
    assert seen.look() == "the last word"


def test_an_ended_job_is_not_looked_at_again(job: Job) -> None:
    seen = Seen(finished(job))
    seen.look()
    Job.objects.update(error="changed later")
    seen.look()
    assert seen.follower.jobs[0].error == ""


# --- workers


def test_a_job_that_was_picked_up_needs_no_warning(job: Job) -> None:
    picked_up_by(make_node("w7@pi"), job)
    WorkerNode.objects.all().delete()
    seen = Seen(job)
    seen.look()
    assert seen.notes == []


@pytest.mark.parametrize("field", ["dead_at", "drain_at"])
def test_a_worker_that_takes_nothing_does_not_count(field: str, job: Job) -> None:
    WorkerNode.objects.update(**{field: timezone.now()})
    seen = Seen(job)
    seen.look()
    assert seen.notes == [no_worker("celery")]


def test_a_queue_of_its_own_is_named() -> None:
    assert no_worker("nmap") == (
        "No worker is running for the queue nmap: start one with make run; the job waits for it."
    )


def test_a_command_that_said_so_does_not_say_it_again(job: Job) -> None:
    WorkerNode.objects.all().delete()
    notes: list[str] = []
    Follower([job], QuietScreen(notes.append), warned=True).look()
    assert notes == []


# --- several, and none


def test_following_ends_when_the_last_one_has(host: Host) -> None:
    first, second = make_job("work", host), make_job("look", host)
    follower = Follower([finished(first), second], QuietScreen(lambda text: None))
    assert [job.is_active for job in follower.follow(0.0)] == [False, True]
    finished(second)
    assert [job.is_active for job in follower.follow(5.0)] == [False, False]


def test_lines_of_work_without_a_host_carry_its_number(host: Host) -> None:
    chore, other = make_job("chore"), make_job("work", host)
    lines(chore, JobLine(job_id=chore.pk, number=1, text="swept"))
    seen = Seen(chore, other)
    assert f"{chore.pk} | swept" in seen.look()


def test_a_deleted_row_is_a_failure_and_an_ended_one_stays_what_it_was(job: Job) -> None:
    assert without_row(job).status == Status.FAILED
    done = Job(status=Status.SUCCEEDED)
    assert without_row(done).status == Status.SUCCEEDED


def test_a_database_that_is_away_for_a_moment_ends_nothing(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    look, fails = Follower.look, [OperationalError("away")]

    def flaky(self: Follower) -> None:
        if fails:
            raise fails.pop()
        end_pending(job, End(Status.CANCELLED, summary="Enough."))
        look(self)

    monkeypatch.setattr(follow.Follower, "look", flaky)
    (ended,) = Follower([job], QuietScreen(lambda text: None)).follow(20.0)
    assert ended.status == Status.CANCELLED


def test_only_a_pending_job_has_a_reason_to_wait(job: Job) -> None:
    running_on(make_node("w7@pi"), change(job, waiting_why="pi was off."))
    assert waiting_reason(job) == ""


# --- a terminal


def screen(*jobs: Job, note: str = "") -> str:
    """What a terminal of 90 columns holds after one look."""
    console = Console(file=(paper := io.StringIO()), force_terminal=True, width=90, color_system=None)
    with LiveScreen(console, several=len(jobs) > 1) as live:
        Follower(list(jobs), live).look()
        if note:
            live.note(note)
        live.progress.refresh()
    return paper.getvalue()


def test_a_line_of_a_host_moves_no_cursor_of_ours(job: Job) -> None:
    lines(job, JobLine(job_id=job.pk, number=1, text="\x1b[2J\x1b]0;owned\x07[red]plain[/red]"))
    shown = screen(job)
    assert "[red]plain[/red]" in shown
    assert "\x1b[2J" not in shown
    assert "owned" not in shown


def test_several_jobs_have_a_bar_each(host: Host) -> None:
    shown = screen(make_job("work", host), make_job("look", make_host("other")))
    assert f"(work on {host.name})" in shown
    assert "(look on other)" in shown


def test_a_note_stands_above_the_bars(job: Job) -> None:
    assert "No worker." in screen(job, note="No worker.")


def test_a_total_that_is_not_known_has_no_percentage(job: Job) -> None:
    running_on(make_node("w7@pi"), change(job, step="scan", progress_done=7))
    shown = screen(job)
    assert "scan" in shown
    assert "%" not in shown


# --- the command around it


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Status | None], None]:
    """Ctrl-C at the first look, after every pending job ended so (None: it goes on)."""

    def at(status: Status | None) -> None:
        def look(self: Follower) -> None:
            for each in Job.objects.filter(status=Status.PENDING) if status else ():
                end_pending(each, End(status or Status.FAILED, summary="So."))
            raise KeyboardInterrupt

        monkeypatch.setattr(follow.Follower, "look", look)

    return at


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that takes messages, and a worker for them."""
    make_node(queues=["celery"])

    def take(job_id: int) -> None:
        Job.objects.filter(pk=job_id).update(published_at=timezone.now())

    monkeypatch.setattr(hints, "_publishers", [take])


def test_ctrl_c_leaves_the_work_alone_and_is_code_5(
    host: Host, broker: None, interrupted: Callable[[Status | None], None]
) -> None:
    interrupted(None)
    ran = herder("run_job", "work", "--host", host.name, "--follow")
    job = Job.objects.get()
    assert (ran.code, job.status, job.cancel_requested_at) == (5, Status.PENDING, None)
    assert f"Stopped following; the work goes on (./herder cancel_job {job.pk} stops it)." in ran.err


def test_ctrl_c_on_several_names_no_single_job(broker: None, interrupted: Callable[[Status | None], None]) -> None:
    for name in ("pi1", "pi2"):
        make_host(name)
    interrupted(None)
    ran = herder("run_job", "work", "--all-hosts", "--wait")
    assert ran.code == 5
    assert "(./herder cancel_job ID stops it)" in ran.err


def test_a_request_without_redis_is_saved_and_says_so(host: Host, redis_away: CutRedis, settings: Settings) -> None:
    make_node(queues=["celery"])
    ran = herder("run_job", "copy", "--host", host.name, "--timeout", "0")
    assert ran.code == 5
    assert "Redis does not answer: the job is saved and starts when Redis is back." in ran.err
    assert Job.objects.get().status == Status.PENDING


def test_a_cancel_without_redis_still_cancels(job: Job, redis_away: CutRedis) -> None:
    ran = herder("cancel_job", str(job.pk))
    assert (ran.code, ran.err) == (0, "")
    assert Job.objects.get().status == Status.CANCELLED
