"""A password that a connection knows reaches neither the log, nor its rows, nor the end of the job."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from jobs import logs
from jobs.masks import HIDDEN, mask_of
from jobs.registry import JobFailed, Summary
from tests.factories import make_job
from tests.jobs.running import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.models import Host
    from jobs.run import LiveRun
    from tests.jobs.gate import FakeGate, FakeSession

    Say = Callable[[Callable[[LiveRun], Summary]], None]

SECRET = "S3cr3t$x"


@pytest.mark.parametrize("text", [SECRET, f"a{SECRET}b", f"{SECRET} {SECRET}"])
def test_a_secret_is_hidden_wherever_it_stands(text: str) -> None:  # case G16
    assert SECRET not in mask_of([SECRET])(text)


def test_of_two_secrets_the_longer_is_hidden_first() -> None:
    assert mask_of(["pass", "password"])("password") == HIDDEN


@pytest.mark.parametrize("secret", ["", "a", "abc"])
def test_a_secret_too_short_to_hide_changes_nothing(secret: str) -> None:
    assert mask_of([secret])("abc and a") == "abc and a"


@pytest.fixture
def knowing(gate: FakeGate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that know the password."""
    real = gate.open

    def opened(host_id: int, check: Callable[[], None]) -> FakeSession:
        return dataclasses.replace(real(host_id, check), secrets=(SECRET,))

    monkeypatch.setattr(gate, "open", opened)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("me", "knowing")
def test_the_log_of_a_job_hides_what_its_connection_knows(host: Host, todo: Say) -> None:
    def talk(live: LiveRun) -> Summary:
        live.log(f"sudo: {SECRET} is wrong")
        return Summary(f"Tried {SECRET}.")

    todo(talk)
    job = run(make_job("work", host))
    assert job.summary == f"Tried {HIDDEN}."
    assert SECRET not in "".join(logs.read(job.pk)) + "".join(job.lines.values_list("text", flat=True))


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("me", "knowing")
def test_the_failure_of_a_job_hides_it_too(host: Host, todo: Say) -> None:
    def fail(live: LiveRun) -> Summary:
        raise JobFailed(f"The host said {SECRET}.")

    todo(fail)
    job = run(make_job("work", host))
    assert job.error == f"The host said {HIDDEN}."
    assert not job.events.filter(text__contains=SECRET).exists()
