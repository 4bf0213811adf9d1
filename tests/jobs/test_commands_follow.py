"""Following a job: what is shown while another thread plays the worker, and when it ends."""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from rich.console import Console

from jobs.follow import Follower, LiveScreen, PlainScreen, QuietScreen, Workers, waiting_words
from jobs.models import Job, JobLine, Status, WaitingOn, WorkerNode
from jobs.transitions import End, end_pending
from tests.factories import change, lines, make_job, make_node, running_on, waiting_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_django import Settings

    from hosts.models import Host

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 20.0  # seconds after which a follower that hangs fails its test


class Paper(PlainScreen):
    """Keeps what it is shown; sets an event for each log line."""

    def __init__(self, *, several: bool = False) -> None:
        self.text: list[str] = []
        self.notes: list[str] = []
        self.shown = threading.Event()
        super().__init__(self.text.append, self.notes.append, several=several)

    def line(self, job: Job, text: str) -> None:
        """Show, and tell that a line was shown."""
        super().line(job, text)
        self.shown.set()


@contextmanager
def meanwhile(action: Callable[[], None]) -> Iterator[None]:
    """Do it in another thread, with a connection of its own, while the block runs."""

    def run() -> None:
        try:
            action()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(PATIENCE)
    assert not thread.is_alive()


def write(job: Job, *numbers: int) -> None:
    """Lines of a job's log, as the thread beside the work stores them."""
    lines(job, *(JobLine(job_id=job.pk, number=number, text=f"line {number}") for number in numbers))


@pytest.fixture
def job(host: Host) -> Job:
    make_node(queues=["celery"])
    return make_job("work", host)


def test_a_follower_shows_the_log_and_ends_with_the_job(job: Job) -> None:
    paper = Paper()

    def worker() -> None:
        write(job, 1, 2)
        assert paper.shown.wait(PATIENCE)
        write(job, 3)
        end_pending(job, End(Status.CANCELLED, summary="Enough."))

    with meanwhile(worker):
        (ended,) = Follower([job], paper).follow(PATIENCE)
    assert ended.status == Status.CANCELLED
    assert [text for text in paper.text if text.startswith("line")] == ["line 1", "line 2", "line 3"]


def test_lines_that_fell_out_of_the_rows_are_counted(job: Job) -> None:
    paper = Paper()
    write(job, 1, 2, 900)
    Follower([job], paper).look()
    assert paper.text[1:3] == ["line 2", f"… 897 lines left out; whole log: ./herder job {job.pk} --log"]


def test_a_line_is_shown_once(job: Job) -> None:
    paper, write_now = Paper(), write
    follower = Follower([job], paper)
    write_now(job, 1)
    follower.look()
    follower.look()
    assert paper.text.count("line 1") == 1


def test_a_time_out_gives_the_job_back_as_it_stands(job: Job) -> None:
    (left,) = Follower([job], Paper()).follow(0.0)
    assert left.is_active


def test_a_change_of_state_is_one_line(job: Job, host: Host) -> None:
    paper = Paper()
    follower = Follower([job], paper)
    follower.look()
    follower.look()
    running_on(make_node("w2@pi"), job)
    follower.look()
    name = f"job {job.pk} (work on {host.name})"
    assert paper.text == [f"{name}: queued", f"{name}: running on w2@pi"]


def test_several_jobs_name_their_lines(job: Job, host: Host) -> None:
    paper = Paper(several=True)
    write(job, 1)
    Follower([job, make_job("chore")], paper).look()
    assert f"{host.name} | line 1" in paper.text


def test_a_row_that_was_deleted_ends_the_following(job: Job) -> None:
    follower = Follower([job], Paper())
    Job.objects.all().delete()
    (gone,) = follower.follow(PATIENCE)
    assert (gone.status, gone.error) == (Status.FAILED, "The job's row was deleted.")


def test_no_worker_is_said_once(job: Job) -> None:
    WorkerNode.objects.all().delete()
    paper = Paper()
    follower = Follower([job], paper)
    follower.look()
    follower.look()
    assert paper.notes == ["No worker is running: start one with make run; the job waits for it."]


def test_a_worker_of_another_queue_does_not_count(job: Job) -> None:
    WorkerNode.objects.update(queues=["nmap"])
    assert Workers().missing(job)
    change(job, queue="nmap")
    assert not Workers().missing(job)


def test_a_worker_that_stopped_beating_is_found_by_watching(job: Job, settings: Settings) -> None:
    workers = Workers()
    assert not workers.missing(job)
    settings.PIHERDER_BEAT_SEC = 0  # three beats have passed
    assert workers.missing(job)
    WorkerNode.objects.update(beats=7)
    assert not workers.missing(job)


def test_waiting_is_told_with_its_reason(host: Host) -> None:
    job = waiting_on(WaitingOn.LOCK, make_job("copy", host), waiting_why="Job 3 copies.", next_probe_at=None)
    assert waiting_words(job) == "waiting on lock (Job 3 copies)"


def test_a_quiet_screen_shows_notes_only(job: Job) -> None:
    notes: list[str] = []
    write(job, 1)
    WorkerNode.objects.all().delete()
    Follower([job], QuietScreen(notes.append)).look()
    assert len(notes) == 1


def live(job: Job, **fields: object) -> str:
    """What a terminal of 100 columns holds after one look."""
    change(job, **fields)
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with LiveScreen(console) as screen:
        Follower([job], screen).look()
        screen.progress.refresh()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_a_bar_and_the_log_above_it(job: Job) -> None:
    running_on(make_node("w2@pi"), job)
    write(job, 1)
    shown = live(job, progress_done=1, progress_total=4, progress_label="[bold] 3 of 12 files")
    assert "line 1" in shown
    assert "25 %" in shown
    assert "[bold] 3 of 12 files" in shown  # names of files are no markup


def test_a_terminal_shows_what_is_waited_for(job: Job) -> None:
    assert "waiting on host (pi is off)" in live(job, waiting_on=WaitingOn.HOST, waiting_why="pi is off.")
