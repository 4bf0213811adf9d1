"""Backups that are stopped or broken in the middle: what is left, what is said, and that the next run is good."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from hosts import copying
from hosts.models import GenerationStatus, Source
from hosts.store.layout import TREE
from jobs import beside
from jobs.models import Failure, Job, Lane, Status
from jobs.mutex import client, key

from .conftest import Pi, cancel, carry_out, contents, meanwhile, said

if TYPE_CHECKING:
    import pytest


def next_run_is_good(pi: Pi) -> Job:
    pi.edit(bandwidth_kib=0)
    job = pi.run("backup")
    assert (job.status, job.error, job.waiting_why) == (Status.SUCCEEDED, "", "")
    assert contents(pi.good()[-1].path / TREE) == contents(pi.data)
    return job


def nothing_is_held(pi: Pi) -> bool:
    writing = pi.source.generations.filter(status=GenerationStatus.WRITING).exists()
    return not (Lane.objects.exists() or client().get(key(pi.host.pk)) or writing)


def test_a_cancel_in_mid_copy_ends_both_sides_and_keeps_the_partial(pi: Pi) -> None:
    last_good = pi.keep()
    before = contents(last_good.path)
    pi.slow()
    job = pi.request("backup")
    with meanwhile(pi.is_copying, lambda: cancel(job)):
        carry_out(job)
    assert (job.status, job.failure, job.summary) == (
        Status.CANCELLED, "", "Cancelled; no process of the job is left.",
    )  # fmt: skip
    assert pi.is_quiet()
    assert (len(pi.partials()), nothing_is_held(pi)) == (1, True)
    assert "Going on with what an interrupted run" in said(next_run_is_good(pi))
    assert contents(last_good.path) == before


def test_a_cancel_in_a_hook_ends_it_and_still_runs_the_one_after(pi: Pi) -> None:
    started, ended = pi.sshd.folder / "started", pi.sshd.folder / "ended"
    pi.edit(before_hook=f"touch {started}; sleep 300", after_hook=f"touch {ended}")
    job = pi.request("backup")
    with meanwhile(started.exists, lambda: cancel(job)):
        carry_out(job)
    assert (job.status, job.failure, ended.exists()) == (Status.CANCELLED, "", True)
    assert pi.is_quiet()


def test_a_host_that_dies_in_mid_copy_fails_in_words(pi: Pi) -> None:
    pi.slow()
    with meanwhile(pi.is_copying, pi.sshd.kill):
        job = pi.run("backup")
    assert (job.status, job.failure) == (Status.FAILED, Failure.LOST_CONTACT)
    assert "The connection to pi1 was lost during the copy" in job.error
    assert nothing_is_held(pi)
    pi.sshd.start()
    next_run_is_good(pi)


def test_after_a_cut_the_service_is_started_over_a_new_connection(pi: Pi) -> None:
    pi.slow()
    pi.edit(after_hook=f"touch {pi.sshd.folder}/ended")
    with meanwhile(pi.is_copying, pi.sshd.cut):
        job = pi.run("backup")
    assert (job.failure, (pi.sshd.folder / "ended").exists()) == (Failure.LOST_CONTACT, True)
    assert pi.is_quiet()


def test_a_cancel_that_a_frozen_host_cannot_confirm_says_so(pi: Pi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "CONFIRM", 2.0)
    pi.slow()
    job = pi.request("backup")

    def freeze_and_cancel() -> None:
        pi.sshd.freeze()
        cancel(job)

    with meanwhile(pi.is_copying, freeze_and_cancel):
        carry_out(job)
    assert (job.status, job.failure) == (Status.CANCELLED, Failure.CANCEL_UNCONFIRMED)
    assert nothing_is_held(pi)
    pi.sshd.thaw()
    assert pi.is_quiet()
    next_run_is_good(pi)


def test_a_lost_claim_publishes_nothing(pi: Pi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "TICK", 600.0)  # so that only the fenced write before the rename is left to notice
    job = pi.request("backup")
    taken = uuid.uuid4()
    with meanwhile(lambda: bool(pi.partials()), lambda: Job.objects.filter(pk=job.pk).update(attempt=taken)):
        carry_out(job)
    assert (job.status, job.attempt, job.error) == (Status.RUNNING, taken, "")
    assert (pi.good(), len(pi.partials())) == ([], 1)


def time_is_up() -> None:
    """What the thread beside the work sees once the limit has passed."""
    for thread in threading.enumerate():
        if isinstance(thread, beside.Beside):
            thread.deadline = 0.0


def came_to(pi: Pi, megabytes: float) -> int:
    """The percentage that a run names whose time is up when it has written so much of the big file."""
    job = pi.request("backup")

    def so_far() -> bool:  # rsync names a total only once a second
        return pi.has_written(megabytes) and Job.objects.filter(pk=job.pk, progress_total__gt=0).exists()

    with meanwhile(so_far, time_is_up):
        carry_out(job)
    assert (job.status, job.failure) == (Status.FAILED, Failure.TIME_LIMIT)
    percent, _, where = job.error.removeprefix("Stopped at the limit, ").partition(" % copied ")
    assert where == f"({pi.data}); the next run goes on from there."
    return int(percent)


def test_a_long_backup_says_how_far_it_came_and_finishes_over_several_limited_runs(pi: Pi) -> None:
    pi.slow(kib=1000, megabytes=16)  # so that much is left when the stop is noticed
    Source.objects.filter(pk=pi.source.pk).update(excludes=["/sparse"])
    assert 30 < came_to(pi, 6) < 95
    assert 55 < came_to(pi, 10) < 100
    pi.edit(bandwidth_kib=0)
    assert "Going on with what an interrupted run" in said(pi.run("backup"))
    assert (pi.good()[0].path / TREE / "big").read_bytes() == (pi.data / "big").read_bytes()


def test_the_limit_of_the_host_ends_a_backup(pi: Pi) -> None:
    pi.edit(backup_limit=timedelta(seconds=1), before_hook="sleep 30")
    job = pi.run("backup")
    assert (job.status, job.failure) == (Status.FAILED, Failure.TIME_LIMIT)
