"""Backups that last longer than they may, or than a message is waited for, and messages that come twice."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure, Job, JobEvent, Status
from piherder.celery import app

if TYPE_CHECKING:
    from tests.faults.hosts.machine import Machine

pytestmark = pytest.mark.fault
MOST_RUNS = 8


def percent(job: Job) -> int:
    """How far it says that it came; -1 for a run that was stopped before it copied anything."""
    found = re.search(r"Stopped at the limit, (\d+) % copied", job.error)
    assert found or job.error == "Stopped at its time limit."
    return int(found[1]) if found else -1


def test_it_finishes_over_several_limited_runs(pi: Machine) -> None:
    pi.herd.worker()
    for number in range(10):
        (pi.data / f"part {number}").write_bytes(os.urandom(1 << 20))
    pi.edit(bandwidth_kib=800, backup_limit=timedelta(seconds=6))
    runs = [pi.done()]
    while runs[-1].status != Status.SUCCEEDED and len(runs) < MOST_RUNS:
        runs.append(pi.done())
    assert (runs[-1].status, len(runs) > 2) == (Status.SUCCEEDED, True), runs[-1].error
    assert {run.failure for run in runs[:-1]} == {Failure.TIME_LIMIT}
    came_to = [come for run in runs[:-1] if (come := percent(run)) >= 0]
    assert came_to == sorted(came_to) != []
    assert pi.same()


def test_beyond_the_visibility_time_out(pi: Machine) -> None:  # case H01
    worker = pi.herd.worker("gamma", PIHERDER_VISIBILITY_SEC="5")
    pi.herd.only(worker)
    pi.edit(backup_limit=timedelta(hours=12))
    job = pi.copying(kib=350, megabytes=5)  # the transport looks for old messages every 10 s
    assert pi.herd.ended(job).status == Status.SUCCEEDED
    assert JobEvent.objects.filter(job=job, name="picked up").count() == 1
    assert worker.output.count("] received") > 1
    assert len(pi.good()) == len(pi.kept) + 1


def test_one_message_delivered_twice_at_once(pi: Machine) -> None:
    pi.herd.only()
    workers = pi.herd.workers("alpha", "beta")  # both are idle: a worker that still connects may lose a message
    job = pi.ask()
    for _ in range(2):
        app.send_task("backup_job", args=[job.pk], queue=job.queue)
    pi.herd.until(lambda: sum(one.output.count("] received") for one in workers) >= 2, "two copies have come")
    assert pi.herd.ended(job).status == Status.SUCCEEDED
    assert JobEvent.objects.filter(job=job, name="picked up").count() == 1
    assert len(pi.good()) == len(pi.kept) + 1


def test_delivered_again_in_mid_rsync(pi: Machine) -> None:
    pi.herd.workers("alpha", "beta")
    job = pi.copying(kib=800, megabytes=4)
    for _ in range(4):
        app.send_task("backup_job", args=[job.pk], queue=job.queue)
    assert pi.herd.ended(job).status == Status.SUCCEEDED
    assert JobEvent.objects.filter(job=job, name="picked up").count() == 1
    assert len(pi.good()) == len(pi.kept) + 1
