"""What holds for every page: a login, a strict policy for scripts, errors in words, no secret, no script needed."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from jobs.models import EngineSettings
from piherder.csp import POLICY
from tests import people
from tests.factories import make_host, make_job
from tests.hosts.rows import make_generation, make_source

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db
STATIC = Path(settings.BASE_DIR) / "piherder" / "static" / "piherder"
OPEN = {"login/", "logout/", "admin/login/", "health/"}
SAMPLES = {"int:pk": "1", "host:name": "pi", "path:object_id": "1", "int:content_type_id": "1", "path:url": "x"}


def routes(resolver: URLResolver | None = None, before: str = "") -> Iterator[str]:
    """Every address of the installation, with sample values; django's own catch-all is left out."""
    for each in (resolver or get_resolver()).url_patterns:
        here = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from routes(each, here)
        elif isinstance(each, URLPattern) and "(?P" not in here:
            yield re.sub(r"<([^>]+)>", lambda found: SAMPLES.get(found[1], "1"), here)


@pytest.fixture
def boss() -> Client:
    return people.boss()


@pytest.fixture
def pages() -> list[str]:
    """One address of each kind of page, with rows behind it."""
    host = make_host("pi")
    generation = make_generation(make_source(host))
    job = make_job("host_facts", host)
    named: dict[str, list[object]] = {"job": [job.pk], "host": [host.name], "generation": [host.name, generation.pk]}
    return [
        reverse(name, args=named.get(name)) for name in ("jobs", "hosts", "job", "host", "generation", "herder_backups")
    ]


def test_the_routes_are_found() -> None:
    found = set(routes())
    assert {"jobs/", "hosts/pi/generations/1/restore/", "hold/", "admin/jobs/job/"} <= found


def test_nothing_is_shown_or_done_without_login() -> None:
    stranger = Client()
    for address in set(routes()) - OPEN:
        for answer in (stranger.get(f"/{address}"), stranger.post(f"/{address}")):
            assert answer.status_code in {302, 301}, address
            assert "/login/" in answer["Location"] or answer["Location"].startswith("/admin/"), address


def test_a_watcher_without_login_hears_one_word_and_changes_nothing() -> None:
    assert Client().get("/health/").content == b"ok\n"
    assert Client().post("/health/").status_code == 405


def test_login_leads_where_one_wanted_to_go() -> None:
    User.objects.create_user("someone", password="correct horse")
    client = Client()
    asked = client.get("/hosts/")
    assert asked["Location"] == "/login/?next=/hosts/"
    shown = client.get(asked["Location"]).content.decode()
    assert 'name="next" value="/hosts/"' in shown
    sent = client.post("/login/", {"username": "someone", "password": "correct horse", "next": "/hosts/"})
    assert sent["Location"] == "/hosts/"


def test_login_never_leads_outside() -> None:
    User.objects.create_user("someone", password="correct horse")
    data = {"username": "someone", "password": "correct horse", "next": "https://example.org/"}
    assert Client().post("/login/", data)["Location"] == "/jobs/"


def test_a_wrong_password_is_said_in_words() -> None:
    shown = Client().post("/login/", {"username": "nobody", "password": "PLANTED"}).content.decode()
    assert "name or the password is wrong" in shown
    assert "PLANTED" not in shown


def test_logout_is_a_form(boss: Client) -> None:
    assert boss.get("/logout/").status_code == 405
    assert boss.post("/logout/")["Location"] == "/login/"
    assert boss.get("/jobs/").status_code == 302


def test_a_part_whose_session_is_over_loads_the_page_anew() -> None:
    answer = Client().get("/jobs/", headers={"HX-Request": "true"}, follow=True)
    assert answer.headers["HX-Refresh"] == "true"
    assert answer.content == b""


def test_every_answer_carries_the_policy(boss: Client, pages: list[str]) -> None:
    for address in (*pages, "/admin/", "/nowhere/", "/login/"):
        assert boss.get(address).headers["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY


class Strict(HTMLParser):
    """Collects what the policy forbids and what has no name."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one element."""
        found = dict(attrs)
        self.ids += [str(found["id"])] if "id" in found else []
        self.faults += [name for name in found if name == "style" or (name.startswith("on") and name != "on")]
        if tag == "style" or (tag == "script" and "src" not in found):
            self.faults.append(tag)
        if tag == "form" and found.get("method", "get") == "post" and not found.get("action"):
            self.faults.append("a form without address")


def read(text: str) -> Strict:
    parser = Strict()
    parser.feed(text)
    return parser


def test_no_page_has_inline_script_or_style(boss: Client, pages: list[str]) -> None:
    for address in pages:
        found = read(boss.get(address).content.decode())
        assert found.faults == [], address
        assert len(found.ids) == len(set(found.ids)), address


def test_no_admin_page_breaks_the_policy(boss: Client, pages: list[str]) -> None:
    for address in ("", "jobs/job/", "hosts/host/1/change/", "django_celery_beat/periodictask/add/"):
        assert not {"style", "script"} & set(read(boss.get(f"/admin/{address}").content.decode()).faults), address


def test_live_pages_live_without_script_too(boss: Client, pages: list[str]) -> None:
    for address in pages[:4]:
        assert '<noscript><meta http-equiv="refresh"' in boss.get(address).content.decode()


def test_the_hold_is_on_every_page(boss: Client, pages: list[str]) -> None:
    EngineSettings.objects.create(pk=1, held_at=timezone.now(), held_by="someone")
    for address in (*pages, "/admin/"):
        assert "The herd is on hold" in boss.get(address).content.decode()


@pytest.mark.parametrize(
    "address",
    [
        "/jobs/99999999999999999999999/",
        "/hosts/%00/",
        "/hosts/..%2f..%2fetc/",
        "/hosts/pi/generations/99999999999999999999999/",
        "/hosts/x/generations/1/",
    ],
)
def test_odd_addresses_are_not_found(boss: Client, pages: list[str], address: str) -> None:
    assert boss.get(address).status_code == 404


@pytest.mark.parametrize(
    "query", ["host=%00", "before=99999999999999999999999", "status=%F0%9F%90%91", "kind=a&kind=b"]
)
def test_odd_filters_are_passed_over(boss: Client, query: str) -> None:
    assert boss.get(f"/jobs/?{query}").status_code == 200


@pytest.mark.parametrize("path", ["%00", "..%2f..%2fetc%2fshadow", "%FF", "a" * 3000])
def test_odd_paths_of_a_generation_are_answered_in_words(boss: Client, pages: list[str], path: str) -> None:
    assert boss.get(f"{pages[4]}?path={path}").status_code == 200


@pytest.mark.parametrize("address", ["/hold/", "/hosts/pi/pause/", "/hosts/pi/generations/{}/keep/"])
def test_odd_notes_are_refused_in_words(boss: Client, pages: list[str], address: str) -> None:
    data = {"reason": "a\x00b", "note": "a\x00b"}
    answer = boss.post(address.format(pages[4].split("/")[-2]), data, follow=True)
    assert "Null characters are not allowed" in answer.content.decode()


def test_errors_are_pages_in_words(boss: Client) -> None:
    missing = boss.get("/nowhere/")
    assert missing.status_code == 404
    assert "Go to the dashboard" in missing.content.decode()


def test_a_fault_of_ours_is_a_page(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("PLANTED")

    monkeypatch.setattr("hosts.views.herd.glances", broken)
    boss.raise_request_exception = False
    answer = boss.get("/hosts/")
    assert answer.status_code == 500
    assert "This page could not be made" in answer.content.decode()
    assert "PLANTED" not in answer.content.decode()


@pytest.mark.parametrize("name", ["piherder/piherder.css", "piherder/admin.css", "django_htmx/htmx-2.min.js"])
def test_static_files_are_served_without_login(name: str) -> None:
    answer = Client().get(f"/static/{name}")
    assert answer.status_code == 200
    assert b"".join(answer.streaming_content)  # type: ignore[attr-defined]  # whitenoise streams files


def test_the_style_sheet_stays_small() -> None:
    assert (STATIC / "piherder.css").stat().st_size < 30_000


def test_every_icon_that_is_used_is_drawn(boss: Client, pages: list[str]) -> None:
    for address in pages:
        found = read(text := boss.get(address).content.decode())
        assert set(re.findall(r'href="#(i-[a-z]+)"', text)) <= set(found.ids)
