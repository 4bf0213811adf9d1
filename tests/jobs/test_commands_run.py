"""`run_job`: what it requests, what it says, and its exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from hosts.models import Host
from jobs import hints
from jobs.management.door import worst
from jobs.models import EngineSettings, Job, Status
from jobs.transitions import End, end_pending
from tests.commands import herder, refused
from tests.factories import change, make_host, make_job, make_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.follow import Follower

# Messages go out after a commit, so the tests commit.
pytestmark = pytest.mark.django_db(transaction=True)


def published(job_id: int) -> None:
    """The part of a broker that takes the message."""
    Job.objects.filter(pk=job_id).update(published_at=timezone.now())


@pytest.fixture
def worker(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes the default queue, and a broker."""
    make_node(queues=["celery"])
    monkeypatch.setattr(hints, "_publishers", [published])


@pytest.fixture
def ends_as(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say how every job ends that is looked at: the part of a worker, played between two looks."""

    def say(status: Status, **fields: Any) -> None:
        from jobs import follow

        look = follow.Follower.look

        def then_end(self: Follower) -> None:
            for job in Job.objects.filter(status=Status.PENDING):
                end_pending(job, End(status, **fields))
            look(self)

        monkeypatch.setattr(follow.Follower, "look", then_end)

    return say


def test_a_request_names_its_job(host: Host, worker: None) -> None:
    ran = herder("run_job", "work", "--host", host.name)
    job = Job.objects.get()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"Job {job.pk} (work on {host.name}) is requested.\n"
    assert (job.door, job.requested_name) == ("command", "root")


def test_params_reach_the_job(host: Host, worker: None) -> None:
    assert herder("run_job", "work", "--host", host.name, "--param", "tag=a=b").code == 0
    assert Job.objects.get().params == {"tag": "a=b"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nonsense"], "There is no kind of work called nonsense"),
        (["work"], "Work needs a host"),
        (["work", "--host", "nobody"], "There is no host called nobody"),
        (["chore", "--param", "tag"], "--param takes name=value, not 'tag'."),
        (["chore", "--param", "colour=red"], "Chore has no parameter colour"),
        (["chore", "--param", "tag=12345678901"], "tag: Ensure this value has at most 10 characters"),
        (["chore", "--timeout", "soon"], "Argument --timeout: invalid positive value: 'soon'"),
        (["chore", "--follow", "--wait"], "Argument --wait: not allowed with argument --follow"),
        (["chore", "--all-hosts"], "There are no hosts yet"),
        ([], "The following arguments are required: kind: see herder run_job --help."),
    ],
)
def test_wrong_use_is_one_sentence_and_requests_nothing(words: list[str], sentence: str) -> None:
    assert refused("run_job", *words).startswith(sentence)
    assert not Job.objects.exists()


def test_one_unknown_host_among_several_requests_nothing(host: Host) -> None:
    assert "known are" in refused("run_job", "work", "--host", host.name, "--host", "nobody")
    assert not Job.objects.exists()


def test_an_equal_active_job_is_code_3(host: Host, worker: None) -> None:
    job = make_job("work", host, {"tag": ""})
    ran = herder("run_job", "work", "--host", host.name)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == f"Job {job.pk} (work on {host.name}) is already active (queued).\n"


def test_a_busy_lane_is_code_3_and_names_the_job(host: Host, worker: None) -> None:
    job = make_job("wide", host)
    ran = herder("run_job", "look", "--host", host.name, "--wait", "--timeout", "0")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == f"Look cannot start: job {job.pk} (wide on {host.name}) is queued.\n"


def test_a_held_herd_is_code_1(host: Host) -> None:
    EngineSettings.objects.create(pk=1, held_at="2026-01-01T00:00Z", hold_reason="moving house")
    ran = herder("run_job", "work", "--host", host.name)
    assert (ran.code, ran.err) == (1, "The herd is on hold (moving house): release it first.\n")


def test_every_host_gets_a_line(worker: None) -> None:
    for name in ("pi2", "pi1"):
        make_host(name)
    ran = herder("run_job", "work", "--all-hosts")
    assert [line.split("(")[1] for line in ran.out.splitlines()] == [
        "work on pi1) is requested.",
        "work on pi2) is requested.",
    ]


def test_no_worker_is_said_at_once(host: Host) -> None:
    ran = herder("run_job", "work", "--host", host.name)
    assert ran.code == 0
    assert "No worker is running: start one with make run" in ran.err


def test_a_broker_that_is_away_is_said(host: Host) -> None:
    make_node(queues=["celery"])
    ran = herder("run_job", "work", "--host", host.name)  # these tests publish nothing, as when Redis is away
    assert ran.err == "Redis does not answer: the job is saved and starts when Redis is back.\n"


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(Status.SUCCEEDED, 0, "succeeded"), (Status.FAILED, 1, "failed"), (Status.CANCELLED, 4, "cancelled")],
)
def test_the_end_is_the_exit_code(
    status: Status, code: int, words: str, host: Host, worker: None, ends_as: Callable[..., None]
) -> None:
    ends_as(status, summary="So it is.", error="So it is.", failure="error" if status == Status.FAILED else "")
    ran = herder("run_job", "work", "--host", host.name, "--wait")
    assert ran.code == code
    assert f"(work on {host.name}) {words}: So it is.\n" in (ran.err if code == 1 else ran.out)


def test_a_timeout_is_code_5_and_says_what_is_waited_for(host: Host, worker: None) -> None:
    Host.objects.filter(pk=host.pk).update(last_error_at=timezone.now())  # starts as waiting, without a slot
    ran = herder("run_job", "work", "--host", host.name, "--timeout", "0")
    assert ran.code == 5
    assert f"(work on {host.name}) is still pending: waiting on host (next look" in ran.err


def test_joining_a_job_follows_it_and_stays_code_3(host: Host, worker: None, ends_as: Callable[..., None]) -> None:
    make_job("work", host, {"tag": ""})
    ends_as(Status.SUCCEEDED, summary="Fine.")
    ran = herder("run_job", "work", "--host", host.name, "--wait")
    assert ran.code == 3
    assert "succeeded: Fine." in ran.out


def test_json_is_one_document_and_nothing_else(host: Host, worker: None, ends_as: Callable[..., None]) -> None:
    ends_as(Status.SUCCEEDED, summary="Fine.", result={"n": 1})
    ran = herder("run_job", "work", "--host", host.name, "--wait", "--json")
    assert ran.document["exit_code"] == 0
    answer = ran.document["jobs"][0]
    assert (answer["host"], answer["exit_code"], answer["attached"]) == (host.name, 0, False)
    assert (answer["job"]["status"], answer["job"]["result"]) == ("succeeded", {"n": 1})


def test_json_of_a_refusal_names_the_job_in_the_way(host: Host, worker: None) -> None:
    job = make_job("wide", host)
    ran = herder("run_job", "look", "--host", host.name, "--json")
    assert (ran.code, ran.err) == (3, "")
    assert ran.document["jobs"][0]["job"]["id"] == job.pk
    assert "cannot start" in ran.document["jobs"][0]["message"]


def test_several_hosts_end_with_the_worst_code(worker: None, ends_as: Callable[..., None]) -> None:
    free, busy = make_host("pi1"), make_host("pi2")
    change(make_job("wide", busy), status=Status.RUNNING, attempt="0" * 32, boot="0" * 32)
    ends_as(Status.SUCCEEDED)
    ran = herder("run_job", "look", "--host", free.name, "--host", busy.name, "--wait")
    assert ran.code == 3
    assert "look on pi1) succeeded" in ran.out


def test_the_worst_code_follows_the_order_in_the_help() -> None:
    assert [worst(codes) for codes in ([0, 5], [5, 3], [3, 4], [4, 1], [1, 2], [])] == [5, 3, 4, 1, 2, 0]
