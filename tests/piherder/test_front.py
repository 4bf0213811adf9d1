"""Addresses: whose forwarded headers count, and pages that say what was seen and what to set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from piherder import addresses
from piherder.accounts.models import SignIn
from tests import people

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

ELSEWHERE = "http://elsewhere.example"
RIGHT = "correct horse"


# --- who asks


@pytest.mark.parametrize(
    ("came_from", "forwarded", "trusted", "expected"),
    [
        ("192.0.2.1", "198.51.100.7", [], "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", ["192.0.2.1"], "198.51.100.7"),
        ("192.0.2.2", "198.51.100.7", ["192.0.2.1"], "192.0.2.2"),
        ("192.0.2.1", "", ["192.0.2.1"], "192.0.2.1"),
        ("192.0.2.1", "203.0.113.9, 198.51.100.7", ["192.0.2.1"], "198.51.100.7"),  # the left one is its own word
        ("192.0.2.1", "198.51.100.7, 192.0.2.200", ["192.0.2.0/24"], "198.51.100.7"),  # two proxies
        ("192.0.2.1", "192.0.2.3, 192.0.2.4", ["192.0.2.0/24"], "192.0.2.3"),  # asked from among them
        ("192.0.2.1", "198.51.100.7, unknown", ["192.0.2.0/24"], "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7:4711", ["192.0.2.1"], "198.51.100.7"),
        ("192.0.2.1", "[2001:db8::9]:4711", ["192.0.2.1"], "2001:db8::9"),
        ("::ffff:192.0.2.1", "2001:db8::9", ["192.0.2.1"], "2001:db8::9"),
        ("", "198.51.100.7", ["unix"], "198.51.100.7"),
        ("", "198.51.100.7", ["192.0.2.1"], ""),
        ("192.0.2.1", "," * 5000, ["192.0.2.1"], "192.0.2.1"),
    ],
)
def test_who_asks_is_the_first_from_the_right_that_is_no_proxy(
    came_from: str, forwarded: str, trusted: list[str], expected: str
) -> None:
    assert addresses.client(came_from, forwarded, addresses.proxies(trusted)) == expected


@pytest.mark.django_db
@pytest.mark.parametrize(("trusted", "expected"), [([], "127.0.0.1"), (["127.0.0.1"], "198.51.100.7")])
def test_a_login_comes_from_where_a_trusted_proxy_says(settings: Settings, trusted: list[str], expected: str) -> None:
    settings.PIHERDER_TRUSTED_PROXIES = addresses.proxies(trusted)
    people.make_user("someone", password=RIGHT)
    given = {"username": "someone", "password": RIGHT}
    Client(headers={"X-Forwarded-For": "203.0.113.9, 198.51.100.7"}).post("/login/", given)
    assert SignIn.objects.get().address == expected


@pytest.mark.parametrize(("trusted", "is_told"), [([], True), (["127.0.0.1"], False)])
def test_tls_is_what_a_trusted_proxy_says(settings: Settings, trusted: list[str], is_told: bool) -> None:
    settings.PIHERDER_TRUSTED_PROXIES = addresses.proxies(trusted)
    page = Client(headers={"X-Forwarded-Proto": "https"}).get("/login/").content.decode()
    assert ("Not encrypted" in page) is is_told


def test_no_proxy_renames_the_host(settings: Settings) -> None:
    settings.ALLOWED_HOSTS, settings.PIHERDER_TRUSTED_PROXIES = ["herd.example"], addresses.proxies(["127.0.0.1"])
    client = Client(headers={"Host": "internal", "X-Forwarded-Host": "herd.example"})
    assert client.get("/login/").status_code == 400


# --- encrypted or not


@pytest.mark.parametrize(
    ("url", "host", "is_told"),
    [
        ("", "192.0.2.7:8000", True),
        ("", "localhost:8000", False),
        ("", "[::1]:8000", False),
        ("https://herd.example", "herd.example", False),  # behind a proxy that is not trusted
        ("https://herd.example", "192.0.2.7:8000", True),
        ("http://herd.example", "herd.example", True),
    ],
)
def test_a_page_says_when_others_can_read_along(settings: Settings, url: str, host: str, is_told: bool) -> None:
    settings.ALLOWED_HOSTS, settings.PIHERDER_URL = ["*"], url
    page = Client(headers={"Host": host}).get("/login/").content.decode()
    assert ("Not encrypted" in page) is is_told


@pytest.mark.django_db
def test_every_page_says_so_after_the_login(settings: Settings) -> None:
    client = people.reader()
    assert "not encrypted" in client.get("/jobs/").content.decode()
    settings.ALLOWED_HOSTS = ["localhost"]
    assert "not encrypted" not in client.get("/jobs/", headers={"Host": "localhost"}).content.decode()


# --- wrong ways in


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ("pi.lan:8000", "PIHERDER_URL=http://pi.lan:8000"),
        ("[2001:db8::7]", "PIHERDER_URL=http://[2001:db8::7]"),
        ("my_pi:8000", ""),
        ("a/b", ""),
        ("<b>x", ""),
        ("a b", ""),
        ("x" * 3000, None),
    ],
)
def test_who_asks_under_another_name_is_told_the_line(host: str, line: str | None) -> None:
    answer = Client(headers={"Host": host}).get("/jobs/")
    page = answer.content.decode()
    assert answer.status_code == 400
    assert "does not know" in page
    assert "<b>x" not in page
    assert len(page) < 40_000
    if line is not None:
        assert (f"<code>{line}</code>" in page) if line else ("PIHERDER_URL=" not in page)
        assert ("No setting makes a name like this one known" in page) is (line == "")


def test_no_name_at_all_is_told(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["herd.example"]
    assert "asked for no name" in Client(headers={"Host": ""}).get("/jobs/").content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("seen", "line"),
    [(ELSEWHERE, f"PIHERDER_URL={ELSEWHERE}"), ("http://<b>", ""), ("https://a/b?c", "")],
)
def test_a_form_from_elsewhere_is_told_the_line(seen: str, line: str) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/login/", {"username": "a", "password": "b"}, headers={"Origin": seen})
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "is not the address of this herder" in page
    assert "http://<b>" not in page
    assert (f"<code>{line}</code>" in page) if line else ("PIHERDER_URL=" not in page)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Origin": "null"}, "does not say which page it came from"),
        ({}, "does not say which page it came from"),
        ({"Referer": "https://elsewhere.example/a?b"}, "<code>PIHERDER_URL=https://elsewhere.example</code>"),
        ({"Referer": "about:blank"}, "does not say which page it came from"),
    ],
)
def test_a_form_whose_origin_is_hidden_or_told_otherwise_is_answered(headers: dict[str, str], said: str) -> None:
    client = Client(enforce_csrf_checks=True)
    assert said in client.post("/login/", {}, headers=headers, secure=True).content.decode()


def test_cookies_that_want_tls_are_told(settings: Settings) -> None:
    settings.CSRF_COOKIE_SECURE, settings.PIHERDER_URL = True, "https://herd.example"
    page = Client(enforce_csrf_checks=True).post("/login/", {}).content.decode()
    assert 'href="https://herd.example"' in page


def test_an_old_form_is_told_as_before() -> None:
    assert "no longer valid" in Client(enforce_csrf_checks=True).post("/login/", {}).content.decode()
