"""Many hosts that are down, and schedules that were missed because of that."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from hosts.gate import Gate
from hosts.models import Host
from jobs import schedules
from jobs.models import EngineSettings, Failure, Job, Status, WaitingOn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.hosts.machine import HostHerd, Machine

pytestmark = pytest.mark.fault
MANY = 100
AT_ONCE = 10.0  # seconds on a busy machine; 100 hosts that are tried for 2 s each in 2 slots would take 100


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that does not even refuse: its queue of connections is full (Linux drops what comes then)."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            link = stack.enter_context(socket.socket())
            link.setblocking(False)
            with suppress(BlockingIOError):
                link.connect(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.fixture
def down(pi: Machine) -> Iterator[list[int]]:
    """Ids of many hosts that do not answer and were seen so."""
    with silent_port() as port:
        rows = [
            Host(name=f"down{n}-{pi.host.name}", address="127.0.0.1", port=port, credential=pi.host.credential)
            for n in range(MANY)
        ]
        ids = [host.pk for host in Host.objects.bulk_create(rows)]
        assert not any(Gate().port_answers(ids).values())
        yield ids
        Job.objects.filter(host__in=ids).delete()
        Host.objects.filter(pk__in=ids).delete()


def seconds_to_start(job: Job) -> float:
    """From the request to the work."""
    assert job.started_at is not None
    return (job.started_at - job.created_at).total_seconds()


def waiting(herd: HostHerd, ids: list[int]) -> list[Job]:
    """A job for each of them that waits."""
    return [herd.ask("host_facts", pk) for pk in ids]


def test_a_hundred_hosts_down_delay_nobody(pi: Machine, down: list[int]) -> None:
    pi.herd.worker()
    jobs = waiting(pi.herd, down)
    started = [seconds_to_start(pi.done(kind)) for kind in ("backup", "host_facts", "backup")]
    held = Job.objects.filter(host__in=down).exclude(attempt=None, status=Status.PENDING, picked_up_at=None)
    assert (held.count(), Job.objects.filter(host__in=down, status=Status.PENDING).count()) == (0, MANY)
    assert max(started) < AT_ONCE
    for job in jobs:
        pi.herd.cancel(job)


@pytest.fixture
def nightly(pi: Machine) -> Iterator[PeriodicTask]:
    """A scheduled backup of the host that was due half an hour ago and is not enabled yet."""
    every, _ = IntervalSchedule.objects.get_or_create(every=30, period=IntervalSchedule.DAYS)
    past = timezone.now() - timedelta(days=31)
    wish = json.dumps({"kind": "backup", "host_id": pi.host.pk})
    schedule = PeriodicTask.objects.create(
        name=f"nightly {pi.host.name}", task=schedules.SCHEDULE, interval=every, kwargs=wish, enabled=False
    )
    PeriodicTask.objects.filter(pk=schedule.pk).update(last_run_at=past, date_changed=past)
    yield schedule
    PeriodicTask.objects.filter(pk=schedule.pk).delete()


def backups(pi: Machine) -> list[Job]:
    """All of the host's backups, oldest first."""
    return list(Job.objects.filter(kind="backup", host=pi.host).order_by("id"))


def test_a_missed_backup_is_made_up_for_once(pi: Machine, nightly: PeriodicTask) -> None:
    herd = pi.herd
    EngineSettings.objects.update_or_create(pk=1, defaults={"host_wait_sec": 3})
    herd.workers("alpha")
    pi.sshd.kill()
    beat = herd.beat()
    PeriodicTask.objects.filter(pk=nightly.pk).update(enabled=True)
    herd.until(lambda: len(backups(pi)) == 1, "it is due")
    assert herd.ended(backups(pi)[0]).failure == Failure.HOST_UNREACHABLE
    pi.sshd.start()
    assert pi.done("host_facts").status == Status.SUCCEEDED
    herd.until(lambda: len(backups(pi)) == 2, "it is made up for")
    assert herd.ended(backups(pi)[1]).status == Status.SUCCEEDED
    assert pi.done("host_facts").status == Status.SUCCEEDED
    herd.let_pass(5)
    assert beat.running
    assert len(backups(pi)) == 2


def test_one_machine_under_two_names_is_copied_by_one_rsync_at_a_time(
    pi: Machine, make_machine: Callable[..., Machine]
) -> None:
    pi.herd.worker()
    other = make_machine()
    other.edit(copy_lock=pi.host.copy_lock)
    job = pi.copying(kib=800, megabytes=4)
    following = other.ask()
    waits = Job.objects.filter(pk=following.pk, waiting_on=WaitingOn.LOCK)
    pi.herd.until(waits.exists, "the second waits on the lock")
    assert other.servers() == []
    assert [pi.herd.ended(one).status for one in (job, following)] == [Status.SUCCEEDED] * 2
    other.edit(copy_lock=other.host.copy_lock)
