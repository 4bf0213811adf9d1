"""One job through its six hops, the same for every kind: door, services, tasks, runner, family, SSH, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from hosts.families.host_facts import ReadFacts
from hosts.ssh import Shell
from jobs import admission, hints, runner, tasks, transitions
from jobs.management.commands import run_job
from jobs.models import Job, Status
from piherder.celery import app
from tests.hosts.conftest import login_key
from tests.hosts.families.conftest import Pi, make_pi, pi, root, this_worker

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("login_key", "make_pi", "pi", "root", "this_worker")  # fixtures

HOPS: tuple[tuple[Any, str, str], ...] = (
    (run_job.Command, "handle", "door"),
    (admission, "admit", "services"),
    (tasks, "publish", "tasks"),
    (runner, "run", "runner"),
    (ReadFacts, "run", "family"),
    (Shell, "run", "ssh"),
    (transitions, "finish", "finish"),
)


def note(walked: list[str], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """`real`, with its name written down first."""

    def noted(*args: Any, **kwargs: Any) -> Any:
        walked.append(name)
        return real(*args, **kwargs)

    return noted


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hops in the order in which they were walked; the message is delivered at once."""
    steps: list[str] = []
    for place, attribute, name in HOPS:
        monkeypatch.setattr(place, attribute, note(steps, name, getattr(place, attribute)))
    monkeypatch.setattr("jobs.services.admit", admission.admit)
    monkeypatch.setattr(app, "send_task", lambda name, args, **_: tasks.declared[name](*args))
    monkeypatch.setattr(hints, "_publishers", [tasks.publish])
    return steps


def test_a_job_walks_six_hops_and_ends_with_its_evidence(pi: Pi, walked: list[str]) -> None:
    call_command("run_job", "host_facts", "--host", "pi1")
    job = Job.objects.get()
    assert (job.status, job.summary.startswith("Debian")) == (Status.SUCCEEDED, True)
    assert [hop for number, hop in enumerate(walked) if hop not in walked[:number]] == [name for _, _, name in HOPS]
