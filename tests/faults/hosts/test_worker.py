"""Workers that are killed, stopped or frozen in mid rsync."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure, Job, JobEvent, Status, WaitingOn
from tests.faults.hosts.machine import kill
from tests.faults.test_kill import carrier
from tests.faults.test_stop import EXIT_BURIED, assert_stopped

if TYPE_CHECKING:
    from tests.faults.hosts.machine import Machine
    from tests.faults.process import Process

pytestmark = pytest.mark.fault


def assert_lost(pi: Machine, job: Job) -> None:
    """It failed in words, was run once, keeps its node and has published nothing."""
    job = pi.herd.ended(job)
    assert (job.status, job.failure) == (Status.FAILED, Failure.WORKER_LOST)
    assert f"The worker {job.node} was lost while the job ran; it was not resumed." in job.error
    assert JobEvent.objects.filter(job=job, name="running").count() == 1
    assert set(pi.kept) == {generation.path for generation in pi.good()}


def test_pool_child_killed(pi: Machine) -> None:
    worker = pi.herd.worker()
    job = pi.copying()
    kill(carrier(pi.herd, job))
    assert_lost(pi, job)
    assert worker.running


def test_worker_killed_and_restarted(pi: Machine) -> None:
    worker = pi.herd.worker()
    job = pi.copying()
    worker.kill()
    pi.herd.worker()
    assert_lost(pi, job)


def test_worker_killed_and_never_restarted(pi: Machine) -> None:
    worker = pi.herd.worker()
    job = pi.copying()
    pi.herd.worker("beta")
    worker.kill()
    assert_lost(pi, job)


def frozen(pi: Machine) -> tuple[Process, Job]:
    """A worker that stood still in mid rsync until the others buried it, and its job."""
    worker = pi.herd.worker()
    job = pi.copying()
    pi.herd.worker("beta")
    worker.freeze()
    assert_lost(pi, job)
    return worker, job


def test_worker_frozen_and_woken(pi: Machine) -> None:
    worker, job = frozen(pi)
    worker.thaw()
    assert worker.wait() == EXIT_BURIED
    assert_lost(pi, job)


def test_pool_of_a_buried_worker_wakes_first(pi: Machine) -> None:
    worker, job = frozen(pi)
    worker.thaw_children()
    pi.herd.until(lambda: not pi.servers(), "its rsync has ended")
    assert_lost(pi, job)
    worker.thaw()
    assert worker.wait() == EXIT_BURIED
    assert_lost(pi, job)


def test_rsync_of_a_frozen_worker_keeps_the_next_backup_waiting(pi: Machine) -> None:
    worker, _ = frozen(pi)
    assert len(pi.servers()) > 0
    following = pi.ask()
    waiting = Job.objects.filter(pk=following.pk, waiting_on=WaitingOn.LOCK)
    pi.herd.until(waiting.exists, "the next backup waits on the lock")
    worker.thaw()
    assert worker.wait() == EXIT_BURIED
    pi.edit(bandwidth_kib=0)
    assert pi.herd.ended(following).status == Status.SUCCEEDED
    assert pi.same()


def test_stopped(pi: Machine) -> None:
    worker = pi.herd.worker()
    job = pi.copying()
    assert worker.stop() == 0
    assert_stopped(pi.herd.ended(job))


def test_stop_that_becomes_a_kill(pi: Machine) -> None:
    worker = pi.herd.worker("gamma", PIHERDER_DRAIN_GRACE_SEC="60")
    pi.herd.only(worker)
    job = pi.copying()
    worker.send(signal.SIGTERM)
    pi.herd.until(lambda: "shutdown" in worker.output, "it began to stop")
    worker.kill()
    pi.herd.worker()
    assert_lost(pi, job)
