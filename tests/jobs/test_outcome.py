"""However the work ended, the row says so, and why; and what follows comes in with the end."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from jobs import logs, mutex, runner, transitions
from jobs.models import Door, Failure, Job, JobLine, Lane, Status, WaitingOn
from jobs.registry import JobFailed, NotYet, StopWork, Summary
from jobs.transitions import LostClaim
from tests.factories import change, events, make_job
from tests.jobs.running import nothing_is_held, raising, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.models import Host
    from jobs.run import LiveRun
    from tests.jobs.gate import FakeGate

    Say = Callable[[Callable[[LiveRun], Summary]], None]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("me")]


def test_work_that_failed_says_so_and_keeps_what_it_measured(host: Host, todo: Say) -> None:
    todo(raising(JobFailed("The disk is full.", Failure.NO_SPACE, {"free": 0})))
    job = run(make_job("work", host))
    assert (job.status, job.failure, job.error) == (Status.FAILED, Failure.NO_SPACE, "The disk is full.")
    assert job.result == {"free": 0}


def test_a_bug_keeps_its_traceback(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(raising(ZeroDivisionError("oh")))
    job = run(make_job("copy", host))
    assert job.error == "A fault in PiHerder ended the job (ZeroDivisionError: oh); the log holds the traceback."
    assert "Traceback (most recent call last):" in "".join(logs.read(job.pk))
    assert nothing_is_held(gate)


def test_a_result_that_cannot_be_stored_ends_the_job_all_the_same(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(lambda live: Summary("Copied 3 files.", {"when": object()}))
    job = run(make_job("copy", host))
    assert (job.status, job.failure) == (Status.FAILED, Failure.ERROR)
    assert "Copied 3 files." in job.error
    assert nothing_is_held(gate)


@pytest.mark.parametrize(
    ("reason", "status", "text"),
    [
        ("cancel", Status.CANCELLED, "Cancelled; no process of the job is left."),
        (Failure.TIME_LIMIT, Status.FAILED, "Stopped at its time limit."),
        (Failure.LOCK_LOST, Status.FAILED, "Stopped because another job holds the host's copy lock."),
        (Failure.WORKER_STOPPED, Status.FAILED, "The worker w1@pi was stopped; the job was not resumed. Run it again."),
    ],
)
def test_work_that_was_stopped_says_why(host: Host, todo: Say, reason: str, status: Status, text: str) -> None:
    todo(raising(StopWork(reason)))
    job = run(make_job("work", host))
    assert (job.status, job.evidence) == (status, text)
    assert job.failure == ("" if reason == "cancel" else reason)


def test_an_end_that_the_host_could_not_confirm_says_so(host: Host, todo: Say) -> None:
    stop = StopWork("cancel")
    stop.unconfirmed = True
    todo(raising(stop))
    job = run(make_job("work", host))
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.CANCEL_UNCONFIRMED)


@pytest.mark.parametrize("broken", [OSError("the socket was closed"), JobFailed("rsync ended with code 20.")])
def test_work_that_breaks_because_it_was_stopped_was_stopped(host: Host, todo: Say, broken: Exception) -> None:
    def action(live: LiveRun) -> Summary:
        live.stop("cancel")
        raise broken

    todo(action)
    job = run(make_job("work", host))
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.CANCEL_UNCONFIRMED)
    assert str(broken) in "".join(logs.read(job.pk))


def test_a_detail_of_the_stop_is_kept(host: Host, todo: Say) -> None:
    stop = StopWork(Failure.TIME_LIMIT)
    stop.add_note("Stopped at the limit, 63 % copied.")
    todo(raising(stop))
    assert run(make_job("work", host)).error == "Stopped at the limit, 63 % copied."


def test_a_cold_stop_of_the_worker_is_written_and_passed_on(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(raising(SystemExit(-241)))
    job = make_job("copy", host)
    with pytest.raises(SystemExit):
        runner.run(job.pk)
    job.refresh_from_db()
    assert (job.status, job.failure) == (Status.FAILED, Failure.WORKER_STOPPED)
    assert nothing_is_held(gate)


def test_celerys_soft_limit_is_a_time_limit(host: Host, todo: Say) -> None:
    todo(raising(type("SoftTimeLimitExceeded", (Exception,), {})()))
    assert run(make_job("work", host)).failure == Failure.TIME_LIMIT


def test_a_lost_claim_writes_nothing(host: Host, todo: Say) -> None:
    def action(live: LiveRun) -> Summary:
        live.log("a line")
        Job.objects.update(attempt=uuid.uuid4())
        raise LostClaim

    todo(action)
    job = run(make_job("work", host))
    assert (job.status, job.log_lines, JobLine.objects.count()) == (Status.RUNNING, 0, 0)
    assert events(job)[-1] == "running"


def test_work_that_ends_after_its_claim_was_lost_writes_no_end(host: Host, todo: Say) -> None:
    def action(live: LiveRun) -> Summary:
        Job.objects.update(attempt=uuid.uuid4())
        return Summary("Done.")

    todo(action)
    assert run(make_job("work", host)).status == Status.RUNNING


def test_a_job_deleted_while_it_ran_ends_quietly(host: Host, gate: FakeGate, todo: Say) -> None:
    def action(live: LiveRun) -> Summary:
        live.log("a line")
        Job.objects.all().delete()
        return Summary("Done.")

    todo(action)
    runner.run(make_job("copy", host).pk)
    assert nothing_is_held(gate)


def test_work_that_has_not_begun_goes_back_to_waiting(host: Host, gate: FakeGate, todo: Say) -> None:
    todo(raising(NotYet("Another copy runs on the host.")))
    job = run(make_job("copy", host))
    assert (job.status, job.waiting_on, job.waiting_why) == (
        Status.PENDING,
        WaitingOn.LOCK,
        "Another copy runs on the host.",
    )
    assert not mutex.client().keys("piherder:*")
    assert not Lane.objects.filter(name=Lane.FENCE).exists()


def test_the_last_lines_and_the_last_progress_are_written(host: Host, todo: Say) -> None:
    def action(live: LiveRun) -> Summary:
        live.log("the last line")
        live.progress(3, 4, "caf\udce9")
        return Summary("Done.")

    todo(action)
    job = run(make_job("work", host))
    assert JobLine.objects.get().text == "the last line"
    assert (job.percent, job.progress_label) == (75, "caf\\udce9")
    assert logs.path_of(job.pk).with_suffix(".log.gz").exists()


@pytest.mark.parametrize(("end", "kept"), [(Summary("Done."), 0), (JobFailed("No."), 1)])
def test_a_kind_may_keep_no_log_of_a_good_run(todo: Say, end: Any, kept: int) -> None:
    def action(live: LiveRun) -> Summary:
        live.log("a line")
        if isinstance(end, Exception):
            raise end
        assert isinstance(end, Summary)
        return end

    todo(action)
    job = run(make_job("chore"))
    assert (JobLine.objects.count(), len(list(logs.read(job.pk)))) == (kept, kept)


def test_the_job_that_follows_is_inserted_with_the_end(host: Host, hinted: list[int]) -> None:
    first = run(make_job("work", host, then={"kind": "work", "params": {"tag": "b"}}))
    second = Job.objects.exclude(pk=first.pk).get()
    assert (second.host_id, second.params, second.door) == (host.pk, {"tag": "b"}, Door.THEN)
    assert hinted[-1] == second.pk
    assert first.events.last().text == f"Started job {second.pk} (work)."  # type: ignore[union-attr]  # it has events


def test_nothing_follows_a_failure(host: Host, todo: Say) -> None:
    todo(raising(JobFailed("No.")))
    run(make_job("work", host, then={"kind": "look"}))
    assert Job.objects.count() == 1


@pytest.mark.parametrize("then", [{"kind": "gone"}, {"kind": "copy"}])
def test_a_follower_that_is_refused_is_an_event(host: Host, then: dict[str, Any]) -> None:
    make_job("copy", host, {"tag": "x"})
    job = run(make_job("work", host, then=then))
    assert job.status == Status.SUCCEEDED
    assert job.events.last().text.startswith("Not started: ")  # type: ignore[union-attr]  # it has events


def test_an_end_that_is_taken_back_takes_its_follower_along(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job("work", host, then={"kind": "look"})
    change(job, attempt=uuid.uuid4(), boot=uuid.uuid4(), status=Status.RUNNING)
    create = type(job.events.model.objects).create

    def full(manager: Any, **fields: Any) -> Any:
        if fields.get("name") == "then":
            raise InterruptedError
        return create(manager, **fields)

    monkeypatch.setattr(type(job.events.model.objects), "create", full)
    with pytest.raises(InterruptedError):
        transitions.finish(job.pk, job.attempt or uuid.uuid4(), transitions.End(Status.SUCCEEDED))
    assert [row.status for row in Job.objects.all()] == [Status.RUNNING]
