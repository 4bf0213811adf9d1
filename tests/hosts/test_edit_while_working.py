"""Editing a host while workers write its row: nobody waits for a network, and nobody's words are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from hosts import admin, contact, enrol, root_admin
from hosts.host_keys import generate_key
from hosts.models import BackupRoot, Host
from hosts.store.root import MARKER
from tests import people
from tests.commands import herder
from tests.factories import make_host

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.ssh_target import Target

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Target, bool]]:
    """Logins that were tried: where to, and whether a transaction was open."""
    tried: list[tuple[Target, bool]] = []

    def login(target: Target, private_key: str) -> None:
        tried.append((target, connection.in_atomic_block))

    monkeypatch.setattr(contact, "try_login", login)
    return tried


@pytest.fixture
def host(db: None) -> Host:
    credential = enrol.store_key("pi1", enrol.new_login_key("pi1"))
    return make_host("pi1", credential=credential)


def test_the_new_key_is_tried_where_the_host_will_be_and_outside_of_any_transaction(
    host: Host, logins: list[tuple[Target, bool]], tmp_path: Path
) -> None:
    (tmp_path / "id").write_text(generate_key("new")[0])
    ran = herder("edit_host", "pi1", "--port", "2222", "--user", "ann", "--key", str(tmp_path / "id"))
    assert (ran.code, ran.err) == (0, "")
    ((target, in_transaction),) = logins
    assert (target.port, target.user, in_transaction) == (2222, "ann", False)


def test_a_field_that_is_wrong_is_said_before_the_host_is_asked(
    host: Host, logins: list[tuple[Target, bool]], tmp_path: Path
) -> None:
    (tmp_path / "id").write_text(generate_key("new")[0])
    assert herder("edit_host", "pi1", "--port", "99999", "--key", str(tmp_path / "id")).code == 2
    assert logins == []


def test_what_a_worker_wrote_meanwhile_stays(host: Host) -> None:
    now = timezone.now()
    Host.objects.update(last_seen=now, after_hook_owed_at=now, last_error="off")
    enrol.save(host, port=2222)
    stored = Host.objects.get()
    assert (stored.port, stored.last_seen, stored.after_hook_owed_at, stored.last_error) == (2222, now, now, "off")


def test_a_revived_host_is_new_in_all_that_was_said(host: Host) -> None:
    Host.objects.update(removed_at=timezone.now(), last_error="off", last_error_at=timezone.now())
    key = enrol.new_login_key("pi1")
    revived = enrol.add("pi1", key, [], by="test", address="pi.lan", port=23)
    stored = Host.herd.get(pk=revived.pk)
    assert (stored.address, stored.port, stored.last_error, stored.last_error_at) == ("pi.lan", 23, "", None)
    assert stored.credential.fingerprint == key.fingerprint


def add_root(**fields: Any) -> list[str]:
    """Messages of the page that follows."""
    answer = people.boss().post(reverse("admin:hosts_backuproot_add"), fields)
    return [str(message) for message in get_messages(answer.wsgi_request)]


def test_a_root_of_the_admin_is_probed_and_marked_after_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def watch(path: Path) -> BackupRoot:
        seen.append(connection.in_atomic_block)
        return root_admin.add_root(path)

    monkeypatch.setattr(admin, "add_root", watch)
    add_root(path=str(tmp_path))
    assert (seen, (tmp_path / MARKER).exists()) == ([False], True)
    assert BackupRoot.objects.get().capabilities["hard_links"] is True


def test_a_root_that_is_not_there_is_stored_and_says_what_is_wrong(tmp_path: Path) -> None:
    said = " ".join(add_root(path=str(tmp_path / "nowhere")))
    assert "No backup can go there yet: The backup root" in said
    assert BackupRoot.objects.get().capabilities == {}
