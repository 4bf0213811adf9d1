"""Hosts that do not let us in, show another key, or do not answer at all."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hosts import contact
from hosts.host_keys import generate_key
from hosts.models import Host
from hosts.ssh_errors import HostRefused
from jobs.models import EngineSettings, Failure, Job, Status, WaitingOn
from piherder.house.ports import free_port
from tests.faults.hosts.machine import new_credential

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.hosts.machine import HostHerd, Machine

pytestmark = pytest.mark.fault
WAIT_SEC = 3


@contextmanager
def mute_listener() -> Iterator[int]:
    """The port of something that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


def short_wait() -> None:
    """Hosts that are down are given up soon."""
    EngineSettings.objects.update_or_create(pk=1, defaults={"host_wait_sec": WAIT_SEC})


def waits_on_host(herd: HostHerd, job: Job) -> None:
    """It waits without a slot."""
    rows = Job.objects.filter(pk=job.pk, waiting_on=WaitingOn.HOST, attempt=None, status=Status.PENDING)
    herd.until(rows.exists, f"{job} waits on its host")


def assert_given_up(pi: Machine, job: Job, why: str) -> None:
    """It waited, then failed in words and copied nothing."""
    job = pi.herd.ended(job)
    assert (job.status, job.failure) == (Status.FAILED, Failure.HOST_UNREACHABLE)
    assert (why in job.error, job.started_at) == (True, None), job.error


@pytest.mark.parametrize("kind", ["backup", "host_facts"])
def test_wrong_key(pi: Machine, kind: str) -> None:
    pi.herd.worker()
    pi.edit(credential=new_credential(f"wrong for {pi.host.name} {kind}", generate_key("wrong")))
    job = pi.done(kind)
    assert (job.status, job.failure, job.started_at) == (Status.FAILED, Failure.AUTH_FAILED, None)
    assert "authorized_keys" in job.error


def test_wrong_password(make_machine: Callable[..., Machine]) -> None:
    pi = make_machine(extra=("Match all", "PasswordAuthentication yes"))
    target = contact.login_target("new", "127.0.0.1", pi.sshd.port, pi.sshd.user, [pi.sshd.host_key], None)
    with pytest.raises(HostRefused) as refused:
        contact.install_key(target, pi.key[1], "not the password")
    assert (refused.value.code, "not the password" in str(refused.value)) == ("auth_failed", False)


def test_changed_host_key(pi: Machine) -> None:
    pi.herd.worker()
    pinned = pi.sshd.host_key_fingerprint
    pi.sshd.make_host_keys(anew=True)
    pi.sshd.restart()
    job = pi.done()
    assert (job.status, job.failure, job.started_at) == (Status.FAILED, Failure.HOST_KEY_CHANGED, None)
    assert pinned in job.error
    assert pi.sshd.host_key_fingerprint in job.error


def test_port_closed_for_good(pi: Machine) -> None:
    pi.herd.worker()
    short_wait()
    pi.edit(port=free_port())
    assert_given_up(pi, pi.ask(), "did not answer for 3 s")


def test_host_that_comes_up_in_mid_wait(pi: Machine) -> None:
    pi.herd.worker()
    pi.sshd.kill()
    job = pi.ask()
    waits_on_host(pi.herd, job)
    pi.sshd.start()
    assert pi.herd.ended(job).status == Status.SUCCEEDED
    assert pi.same()


def test_unknown_name(pi: Machine) -> None:
    pi.herd.worker()
    short_wait()
    pi.edit(address="no-such-host.invalid")
    assert_given_up(pi, pi.ask(), "did not answer for 3 s")


def test_banner_that_never_comes(pi: Machine) -> None:
    pi.herd.worker()
    short_wait()
    with mute_listener() as port:
        pi.edit(port=port)
        assert_given_up(pi, pi.ask(), "did not answer for 3 s")


def test_a_wait_leaves_its_reason_on_the_host(pi: Machine) -> None:
    pi.herd.worker()
    pi.sshd.kill()
    job = pi.ask()
    waits_on_host(pi.herd, job)
    assert Host.objects.get(pk=pi.host.pk).last_error == "Nothing answers on its SSH port."
    pi.herd.cancel(job)
