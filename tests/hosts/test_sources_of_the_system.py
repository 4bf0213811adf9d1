"""Sources of the operating system on an explicit wish, and sources that stay on one filesystem, at every door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse

from hosts import enrol
from hosts.models import Host, Source
from tests import people
from tests.commands import herder, refused
from tests.factories import make_host
from tests.hosts.rows import make_source

if TYPE_CHECKING:
    from django.test import Client

pytestmark = pytest.mark.django_db
SYSTEM = "/boot/firmware"


@pytest.fixture
def host(db: None) -> Host:
    return make_host("pi1")


@pytest.fixture
def boss() -> Client:
    return people.boss()


def edit(*words: str) -> Source:
    """The only source after an edit that worked."""
    ran = herder("edit_host", "pi1", *words)
    assert (ran.code, ran.err) == (0, ""), ran
    return Source.objects.get()


def send(client: Client, **data: Any) -> str:
    page = client.post(reverse("admin:hosts_source_add"), {"excludes": "", "shrink_percent": 50, **data}, follow=True)
    return page.content.decode()


@pytest.mark.parametrize("path", [SYSTEM, "/", "/usr/share/x"])
def test_a_folder_of_the_system_is_added_on_wish_only(path: str, host: Host) -> None:
    assert "belongs to the operating system" in refused("edit_host", "pi1", "--source", path)
    assert edit("--source", path, "--allow-system").path == path


def test_the_wish_alone_is_a_slip(host: Host) -> None:
    assert refused("edit_host", "pi1", "--allow-system") == "--allow-system belongs to --source."


@pytest.mark.parametrize("given", [("--allow-system",), ()])
def test_a_new_host_takes_the_wish_too(given: tuple[str, ...]) -> None:
    words = ("add_host", "pi2", "--generate-key", "--source", SYSTEM, "--address", "127.0.0.1", "--port", "1")
    ran = herder(*words, "--trust-first-key", *given)
    assert ("belongs to the operating system" in ran.err) == (not given)
    assert ("cannot be reached" in ran.err) == bool(given)


def test_what_a_new_host_is_told_is_stored() -> None:
    key, at = enrol.new_login_key("pi3"), "pi.lan"
    host = enrol.add("pi3", key, [], by="test", sources=[SYSTEM], allow_system=True, address=at)
    assert host.sources.get().path == SYSTEM


def test_one_filesystem_of_a_new_host_must_be_one_of_its_sources() -> None:
    said = refused("add_host", "pi2", "--generate-key", "--source", "/srv", "--one-file-system", "/data")
    assert said == "--one-file-system names /data, which is no --source."


def test_a_source_stays_on_one_filesystem_and_no_longer(host: Host) -> None:
    assert edit("--source", "/data", "--one-file-system", "/data").one_file_system
    assert not edit("--all-file-systems", "/data").one_file_system


def test_below_the_root_others_are_always_left_out(host: Host) -> None:
    assert edit("--source", "/", "--allow-system").one_file_system
    assert "always left out" in refused("edit_host", "pi1", "--all-file-systems", "/")


def test_the_form_of_the_admin_asks_for_the_wish(boss: Client, host: Host) -> None:
    assert "belongs to the operating system" in send(boss, host=host.pk, path=SYSTEM)
    send(boss, host=host.pk, path=SYSTEM, allow_system="on", one_file_system="on")
    assert (Source.objects.get().path, Source.objects.get().one_file_system) == (SYSTEM, True)


def test_the_form_of_the_admin_never_leaves_the_root_unbounded(boss: Client, host: Host) -> None:
    send(boss, host=host.pk, path="/", allow_system="on")
    assert Source.objects.get().one_file_system


def test_a_stored_source_of_the_system_is_edited_without_the_wish(boss: Client, host: Host) -> None:
    source = make_source(host, SYSTEM)
    page = boss.post(reverse("admin:hosts_source_change", args=[source.pk]), {"excludes": "x", "shrink_percent": 40})
    source.refresh_from_db()
    assert (page.status_code, source.excludes, source.path) == (302, ["x"], SYSTEM)


def test_the_lock_of_a_host_is_an_advanced_field(boss: Client, host: Host) -> None:
    page = boss.get(reverse("admin:hosts_host_change", args=[host.pk])).content.decode()
    assert 'name="copy_lock" value="/etc"' in page
    assert "Advanced" in page
