"""The look at the pages: the right password opens them, a wrong one and a dead server are told apart in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User

from piherder.demo.pages import sign_in
from piherder.demo.proof import Disproved
from piherder.house.ports import free_port

if TYPE_CHECKING:
    from pytest_django.live_server_helper import LiveServer


@pytest.fixture
def address(live_server: LiveServer) -> str:
    User.objects.create_superuser(username="admin", email="", password="right one")
    return f"{live_server.url}/"


def test_the_printed_password_opens_the_jobs_page(address: str) -> None:
    assert "admin" in sign_in(address, "admin", "right one")


def test_a_wrong_password_opens_nothing(address: str) -> None:
    with pytest.raises(Disproved, match="the printed password does not open http"):
        sign_in(address, "admin", "wrong one")


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(Disproved, match=r"does not answer: .*refused"):
        sign_in(f"http://127.0.0.1:{free_port()}/", "admin", "right one")
