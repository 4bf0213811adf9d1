"""What every test gets: servers of its own worker, and a wall around this machine."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings

from jobs import mutex
from piherder.celery import app

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_configure(config: pytest.Config) -> None:
    """Give each parallel worker a Redis database of its own: keys name host ids, and those repeat between workers."""
    worker = str(getattr(config, "workerinput", {}).get("workerid", "gw0"))
    number = int(worker.removeprefix("gw")) + 1
    settings.PIHERDER_REDIS_URL = f"{settings.PIHERDER_REDIS_URL}?db={number}"
    mark = "?virtual_host=" if settings.CELERY_BROKER_URL.startswith("redis+socket") else "/"
    app.conf.update(broker_url=f"{settings.CELERY_BROKER_URL}{mark}{number}")
    mutex.client.cache_clear()
    # A slow hash is right for people and a second of each test for nothing.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SQLite in a file, as in production: threads and processes meet there as they do for real."""
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        database.setdefault("TEST", {})["NAME"] = str(tmp_path_factory.mktemp("db") / "test.sqlite3")


def _is_here(family: int, address: Any) -> bool:
    if family == socket.AF_UNIX:
        return True
    try:
        return ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        return bool(address[0] == "localhost")


@pytest.fixture(autouse=True)
def _walled_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test speaks to anything but this machine."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(self: socket.socket, address: Any) -> None:
        assert _is_here(self.family, address), f"a test wanted to speak to {address}"
        connect(self, address)

    def guarded_ex(self: socket.socket, address: Any) -> int:
        assert _is_here(self.family, address), f"a test wanted to speak to {address}"
        return connect_ex(self, address)

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        patch.setattr(socket.socket, "connect_ex", guarded_ex)
        yield
