"""What open dashboards cost the web process: 50 of them, 14 hosts, while nothing happens and while a job runs.

Each asks as an open page does: at its own pace, and with what it has seen.
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from bench import proc
from bench.asking import ask
from bench.cases.idle import HOSTS, stack
from bench.figures import Aim, Kind, Result
from bench.place import scratch
from hosts.models import Credential, Host
from piherder.house.folder import read_state

if TYPE_CHECKING:
    from pathlib import Path

CORE = Aim(Kind.VALUE, 10)  # percent of one core
PAGES = 50
SEEN = re.compile(rb"\?seen=([0-9a-f]+)[^>]*every (\d+)s")


class NoPage(Exception):
    """The dashboard did not answer as it should."""


class Page(threading.Thread):
    """One open dashboard, which asks until it is told to stop."""

    def __init__(self, address: str, cookie: str, late: float, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.place, self.cookie, self.late, self.over = urlsplit(address).netloc, cookie, late, over
        self.seen, self.pause, self.asked, self.problem = "", 1.0, 0, ""

    def run(self) -> None:
        """Ask, each time with what was seen last; pages that were opened at once do not ask at once."""
        self.over.wait(self.late)
        while not self.over.is_set():
            try:
                self._ask()
            except (OSError, http.client.HTTPException, NoPage) as problem:
                self.problem = str(problem)
                return
            self.over.wait(self.pause)

    def _ask(self) -> None:
        line = http.client.HTTPConnection(self.place, timeout=30)
        line.request(
            "GET",
            f"/?seen={self.seen}",
            headers={"HX-Request": "true", "Cookie": f"{settings.SESSION_COOKIE_NAME}={self.cookie}"},
        )
        answer = line.getresponse()
        body = answer.read()
        line.close()
        self.asked += 1
        if answer.status == http.HTTPStatus.NO_CONTENT:
            return
        found = SEEN.search(body)
        if answer.status != http.HTTPStatus.OK or not found:
            raise NoPage(f"The dashboard answered {answer.status}.")
        self.seen, self.pause = found[1].decode(), float(found[2])


def logged_in() -> str:
    """The session of somebody who may look."""
    client = Client()
    client.force_login(User.objects.create_superuser("bench"))
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def watched(address: str, cookie: str, pids: list[int], seconds: float) -> tuple[float, int]:
    """Percent of one core that these processes took while the pages were open, and the number of questions.

    Raises NoPage when a page was not answered.
    """
    over = threading.Event()
    pages = [Page(address, cookie, 5 * number / PAGES, over) for number in range(PAGES)]
    for page in pages:
        page.start()
    time.sleep(10)  # until each has drawn itself once
    before, began, asked = proc.seconds(pids), time.monotonic(), sum(page.asked for page in pages)
    time.sleep(seconds)
    share = 100 * (proc.seconds(pids) - before) / (time.monotonic() - began)
    asked = sum(page.asked for page in pages) - asked
    over.set()
    for page in pages:
        page.join(30)
        if page.problem:
            raise NoPage(page.problem)
    return share, asked


def run(folder: Path, quick: bool) -> list[Result]:
    """Two lines."""
    seconds = 20.0 if quick else 120.0
    with scratch() as aside, stack(folder, aside):
        key = Credential.objects.create(name="bench", public_key="", fingerprint="", private_key_sealed="")
        for number in range(HOSTS):
            Host.objects.create(name=f"host{number}", address="127.0.0.1", credential=key)
        state, cookie = read_state(folder), logged_in()
        if state is None:
            raise NoPage("The stack is not up.")
        web = proc.family(state.programs["web"])
        still, few = watched(state.address, cookie, web, seconds)
        ask("sleep", seconds=seconds + 60)
        busy, many = watched(state.address, cookie, web, seconds)
    return [
        Result(f"{PAGES} open dashboards, nothing runs", still, "% of a core", CORE, note=f"{few} questions"),
        Result(f"{PAGES} open dashboards, a job runs", busy, "% of a core", CORE, note=f"{many} questions"),
    ]
