"""`healthcheck` and `/health/`: each asks the real thing."""

from __future__ import annotations

import platform
import threading
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError, connection
from django.db.models import F

from jobs.models import BeatLease, WorkerNode
from piherder import health
from piherder.house.ports import free_port
from tests.commands import herder
from tests.factories import make_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.test import Client
    from pytest_django import Settings
    from pytest_django.live_server_helper import LiveServer

pytestmark = pytest.mark.django_db(transaction=True)
HERE = platform.node()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Hearts of these tests beat fast, and are watched for a short time."""
    settings.PIHERDER_BEAT_SEC = 1
    monkeypatch.setattr(health, "RENEW", 1.0)


@pytest.fixture
def beating() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Start a thread that repeats an update until the test ends."""
    end, threads = threading.Event(), []

    def start(beat: Callable[[], object]) -> None:
        def run() -> None:
            while not end.wait(0.1):
                beat()
            connection.close()

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    end.set()
    for thread in threads:
        thread.join()


def move_nodes() -> int:
    """One beat of every worker."""
    return WorkerNode.objects.update(beats=F("beats") + 1)


def move_lease() -> int:
    """One renewal of the lease."""
    return BeatLease.objects.update(counter=F("counter") + 1)


def test_a_worker_that_beats_is_well(beating: Callable[[Callable[[], object]], None]) -> None:
    make_node("w@here", machine=HERE)
    beating(move_nodes)
    ran = herder("healthcheck", "worker")
    assert (ran.code, ran.out.strip()) == (0, "The worker w@here beats.")


def test_a_worker_that_rests_is_not() -> None:
    make_node("w@here", machine=HERE)
    ran = herder("healthcheck", "worker")
    assert (ran.code, ran.err.strip()) == (1, "The worker w@here does not beat.")


def test_another_machines_worker_says_nothing_of_ours(beating: Callable[[Callable[[], object]], None]) -> None:
    make_node("w@there", machine="there")
    beating(move_nodes)
    ran = herder("healthcheck", "worker")
    assert (ran.code, ran.err.strip()) == (1, f"No worker of {HERE} is registered.")


@pytest.mark.parametrize(("leader", "words"), [(HERE, "This beat leads."), ("there", "Beat on there leads, this one")])
def test_beat_leads_or_stands_by(beating: Callable[[Callable[[], object]], None], leader: str, words: str) -> None:
    BeatLease.objects.create(pk=1, holder="0" * 32, name=leader)
    beating(move_lease)
    ran = herder("healthcheck", "beat")
    assert ran.code == 0
    assert ran.out.startswith(words)


def test_a_lease_that_nobody_renews_is_no_beat() -> None:
    BeatLease.objects.create(pk=1, holder="0" * 32, name=HERE)
    ran = herder("healthcheck", "beat")
    assert (ran.code, ran.err.strip()) == (1, "No beat renews the lease, so no schedule fires.")


def test_the_page_answers_without_a_login(client: Client) -> None:
    answer = client.get("/health/")
    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert "no-store" in answer.headers["Cache-Control"]


def test_the_page_says_when_the_database_is_away(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("a secret address")

    monkeypatch.setattr(connection, "cursor", away)
    answer = client.get("/health/")
    assert (answer.status_code, answer.content) == (503, b"The database does not answer.\n")


def test_the_web_is_asked_over_http(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_PORT", live_server.url.rpartition(":")[2])
    ran = herder("healthcheck", "web")
    assert (ran.code, ran.out.strip()) == (0, "The pages answer: ok.")


def test_a_web_that_is_not_there_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_PORT", str(free_port()))
    ran = herder("healthcheck", "web")
    assert ran.code == 1
    assert "Connection refused" in ran.err


def test_a_page_that_answers_with_an_error_is_not_well(live_server: LiveServer) -> None:
    with pytest.raises(health.Unwell, match="The pages answer with 404"):
        health.ask_web(f"{live_server.url}/static/nothing")
