"""Three web processes on one database look at no more guesses than one, also when they are asked all at once."""

from __future__ import annotations

import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from piherder import env
from piherder.accounts.limits import PER_ACCOUNT
from piherder.house.folder import socket_folder
from piherder.house.processes import wait_until
from piherder.house.stack import program
from tests.faults.process import Process
from tests.jobs.test_race import database_url
from tests.piherder.accounts.replica import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RIGHT, TOKEN = "correct horse", "a" * 32
SECONDS = 60.0


class Web(Process):
    """gunicorn behind a Unix socket, where no request has an address."""

    def __init__(self, number: int, folder: Path, looks: Path) -> None:
        self.socket = socket_folder(folder, f"web-{number}.sock") / f"web-{number}.sock"
        words = ("piherder.wsgi:application", "--bind", f"unix:{self.socket}", "--threads", "12", "--no-control-socket")
        there = env.child_environment(
            DATABASE_URL=database_url(),
            DJANGO_SETTINGS_MODULE="tests.piherder.accounts.replica",
            LOOKS=str(looks),
            PYTHONUNBUFFERED="1",
        )
        super().__init__(f"web-{number}", (program("gunicorn"), *words), there, folder)

    def ask(self, method: str, path: str, data: dict[str, str] | None = None) -> int:
        """The status of its answer; 0 when there is none."""
        connection = http.client.HTTPConnection("localhost", timeout=SECONDS)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(SECONDS)
        headers = {
            "Cookie": f"{settings.CSRF_COOKIE_NAME}={TOKEN}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        try:
            connection.sock.connect(str(self.socket))
            connection.request(method, path, urlencode(data or {}), headers)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def guess(self, password: str, path: str = "/login/") -> int:
        """The status after one guess at the account boss."""
        return self.ask("POST", path, {"username": "boss", "password": password, "csrfmiddlewaretoken": TOKEN})

    def begin(self) -> None:
        """Start, and wait until it answers."""
        self.start()
        assert wait_until(lambda: self.ask("GET", "/health/") == 200, SECONDS), self.output


@pytest.fixture
def looks(tmp_path: Path) -> Path:
    """Where each look at a password leaves a byte."""
    file = tmp_path / "looks"
    file.touch()
    return file


@pytest.fixture
def webs(transactional_db: None, tmp_path: Path, looks: Path) -> Iterator[list[Web]]:
    """Three of them, and an account to guess at."""
    User.objects.create(username="boss", password=Watched().encode(RIGHT, "salt"))
    found = [Web(number, tmp_path, looks) for number in range(3)]
    try:
        for web in found:
            web.begin()
        yield found
    finally:
        for web in found:
            web.close()


def test_three_let_through_no_more_guesses_than_one(webs: list[Web], looks: Path) -> None:
    with ThreadPoolExecutor(36) as pool:
        answers = list(pool.map(lambda number: webs[number % 3].guess(f"wrong {number}"), range(36)))
    assert set(answers) <= {200, 429}
    assert looks.stat().st_size <= PER_ACCOUNT
    assert [web.guess(RIGHT) for web in webs] == [429, 429, 429]
    webs[0].close()
    webs[0].begin()
    assert webs[0].guess(RIGHT) == 429
    assert looks.stat().st_size <= PER_ACCOUNT


def test_one_after_the_other_all_guesses_count_wherever_they_are_made(webs: list[Web], looks: Path) -> None:
    answers = [webs[number % 3].guess("wrong") for number in range(PER_ACCOUNT + 1)]
    assert answers == [200] * (PER_ACCOUNT - 1) + [429, 429]
    assert looks.stat().st_size == PER_ACCOUNT
