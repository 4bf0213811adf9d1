"""An engine around each test: kinds and hosts of its own, a log folder, an empty Redis, and a note of every hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs import hints, mutex, node, registry
from tests.factories import make_host, make_node
from tests.jobs import kinds
from tests.jobs.gate import FakeGate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_django.fixtures import Settings

    from hosts.models import Host
    from jobs.node import Me
    from jobs.registry import Summary
    from jobs.run import LiveRun


@pytest.fixture(autouse=True)
def gate(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> FakeGate:
    """The engine's way to hosts in this test; everything that a process keeps is put back afterwards."""
    fake = FakeGate()
    monkeypatch.setattr(registry, "_gate", [fake])
    monkeypatch.setattr(registry, "_families", {**registry._families, **kinds.installed()})
    monkeypatch.setattr(node, "_me", [])
    settings.PIHERDER_LOGS = tmp_path / "job-logs"
    return fake


@pytest.fixture(autouse=True)
def hinted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of the jobs that were hinted at, in order."""
    ids: list[int] = []
    monkeypatch.setattr(hints, "_publishers", [ids.append])
    return ids


@pytest.fixture(autouse=True)
def _empty_redis() -> None:
    mutex.client().flushdb()


@pytest.fixture
def host(db: None) -> Host:
    return make_host()


@pytest.fixture
def me(db: None) -> Me:
    """This process is a worker."""
    node._me[:] = [make_node()]
    return node.me()


@pytest.fixture
def todo(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[LiveRun], Summary]], None]:
    """Say what the kinds of these tests do when they run."""

    def say(action: Callable[[LiveRun], Summary]) -> None:
        monkeypatch.setattr(kinds.Work, "todo", staticmethod(action))

    return say


class CutRedis:
    """Redis is away until `back`: the client speaks to a socket that nobody serves."""

    def __init__(self, settings: Settings, nowhere: Path) -> None:
        self.settings, self.url = settings, settings.PIHERDER_REDIS_URL
        self._turn_to(f"unix://{nowhere}")

    def back(self) -> None:
        """It answers again."""
        self._turn_to(self.url)

    def _turn_to(self, url: str) -> None:
        self.settings.PIHERDER_REDIS_URL = url
        mutex.client.cache_clear()


@pytest.fixture
def redis_away(settings: Settings, tmp_path: Path) -> Iterator[CutRedis]:
    cut = CutRedis(settings, tmp_path / "nobody.sock")
    yield cut
    cut.back()
