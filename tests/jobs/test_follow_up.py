"""What follows a job passes the checks of any door, and nothing that goes wrong with it costs the job its own end."""

from __future__ import annotations

import itertools
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from jobs import services, transitions
from jobs.admission import Unavailable
from jobs.models import Door, Job, Lane, Status
from jobs.patience import patiently
from jobs.services import Asker
from jobs.transitions import End
from tests.factories import make_job, running_on
from tests.jobs.kinds import Look

if TYPE_CHECKING:
    from hosts.models import Host
    from jobs.node import Me

pytestmark = pytest.mark.django_db
DONE = End(Status.SUCCEEDED, summary="Done.")


@pytest.fixture
def ended(host: Host, me: Me) -> Any:
    """Ends a job with this follow-up as succeeded."""

    def end(then: Any) -> Job:
        job = running_on(me, make_job("work", host, then=then))
        assert job.attempt
        transitions.finish(job.pk, job.attempt, DONE)
        job.refresh_from_db()
        return job

    return end


def said(job: Job) -> str:
    """What the row says of its follow-up; its own end is written in any case."""
    assert (job.status, Lane.objects.filter(job=job).count()) == (Status.SUCCEEDED, 0)
    return job.events.get(name="then").text


def test_work_without_a_host_follows_work_on_one(ended: Any) -> None:
    text = said(ended({"kind": "chore"}))
    follower = Job.objects.get(kind="chore")
    assert (follower.host_id, text) == (None, f"Started job {follower.pk} (chore).")


def test_its_parameters_are_cleaned(ended: Any) -> None:
    said(ended({"kind": "work", "params": {"tag": " b "}}))
    assert Job.objects.get(status=Status.PENDING).params == {"tag": "b"}


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ({"kind": "work", "params": {"tag": "x" * 11}}, "tag: Ensure this value has at most 10"),
        ({"kind": "work", "params": {"nope": 1}}, "Work has no parameter nope"),
        ({"kind": "look", "host_id": 999_999}, "There is no host with the id 999999"),
        ({"kind": "nope"}, "There is no kind of work called nope"),
        ({"params": {}}, "a fault in PiHerder (KeyError: 'kind')."),
        (["kind"], "a fault in PiHerder (TypeError"),
    ],
)
def test_what_cannot_follow_is_said(ended: Any, then: Any, words: str) -> None:
    assert said(ended(then)).startswith(f"Not started: {words}")
    assert Job.objects.count() == 1


def test_nothing_follows_while_the_herd_is_held(ended: Any) -> None:
    services.hold("power cut", asker=Asker(Door.PAGE))
    assert said(ended({"kind": "look"})) == "Not started: The herd is on hold (power cut): release it first."


def test_nothing_follows_on_a_paused_host(ended: Any, host: Host) -> None:
    type(host).objects.update(paused_at=timezone.now())
    assert "is paused" in said(ended({"kind": "look"}))


def test_nothing_follows_on_a_removed_host(ended: Any, host: Host) -> None:
    type(host).objects.update(removed_at=timezone.now())
    assert "it was removed" in said(ended({"kind": "look"}))


def test_a_fault_of_a_family_costs_no_end(ended: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Look, "lanes_of", lambda self, host_id, params: 1 // 0)
    assert said(ended({"kind": "look"})).startswith("Not started: a fault in PiHerder (ZeroDivisionError")


def test_an_end_that_a_lost_database_took_along_is_tried_again_whole(
    ended: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: Look, host_id: int | None, params: Any) -> tuple[str, ...]:
        raise OperationalError("server closed the connection")

    monkeypatch.setattr(Look, "lanes_of", away)
    with pytest.raises(OperationalError):
        ended({"kind": "look"})
    assert Job.objects.get().status == Status.RUNNING


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server whose session could end")
def test_a_session_that_ends_under_the_follow_up_costs_no_success(
    host: Host, me: Me, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running_on(me, make_job("work", host, then={"kind": "look"}))
    calls = itertools.count()

    def cut(self: Look, host_id: int | None, params: Any) -> timedelta:  # the last look before the row is inserted
        if next(calls) == 0:
            other = connection.copy()
            with other.cursor() as cursor, connection.cursor() as ours:
                ours.execute("SELECT pg_backend_pid()")
                cursor.execute("SELECT pg_terminate_backend(%s)", ours.fetchone())
            other.close()
        return timedelta(hours=1)

    monkeypatch.setattr(Look, "limit_of", cut)
    patiently(lambda: transitions.finish(job.pk, job.attempt or uuid.uuid4(), DONE))
    job.refresh_from_db()
    assert said(job) == f"Started job {Job.objects.get(kind='look').pk} (look)."


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_the_database_ended_by_itself_is_tried_again_whole(
    host: Host, me: Me, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running_on(me, make_job("work", host, then={"kind": "look"}))
    calls = itertools.count()

    def rolled_back(self: Look, host_id: int | None, params: Any) -> timedelta:
        if next(calls) == 0:
            connection.cursor().execute("ROLLBACK")  # as SQLite does on some errors of its disk (lang_transaction.html)
            raise Unavailable
        return timedelta(hours=1)

    monkeypatch.setattr(Look, "limit_of", rolled_back)
    patiently(lambda: transitions.finish(job.pk, job.attempt or uuid.uuid4(), DONE))
    job.refresh_from_db()
    assert said(job) == f"Started job {Job.objects.get(kind='look').pk} (look)."
