"""The engine's way to real hosts: ports, logins, refusals, pauses."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from hosts import gate
from hosts.gate import Gate
from hosts.host_keys import generate_key
from hosts.models import Credential, Host, HostKey
from hosts.vault import seal
from jobs.models import Failure
from jobs.registry import HostDown, HostRefused
from piherder.demo.sshd import free_port
from tests.factories import make_credential, make_host

if TYPE_CHECKING:
    from piherder.demo.sshd import Sshd

pytestmark = pytest.mark.django_db


def no_check() -> None:
    return None


@pytest.fixture
def host(sshd: Sshd, login_key: tuple[str, str]) -> Host:
    """The row of a host that works."""
    credential = make_credential()
    Credential.objects.filter(pk=credential.pk).update(private_key_sealed=seal(login_key[0]))
    row = make_host("calm", port=sshd.port, user=sshd.user, credential=credential)
    Host.objects.filter(pk=row.pk).update(address="127.0.0.1")
    pin(row, sshd)
    return row


def pin(row: Host, sshd: Sshd) -> None:
    key = sshd.host_key
    HostKey.objects.create(host=row, key_type=key.key_type, public=key.public_base64, fingerprint=key.fingerprint)


def change(host: Host, **fields: object) -> None:
    Host.objects.filter(pk=host.pk).update(**fields)
    host.refresh_from_db()


def test_ports_are_tried_at_once_and_a_jump_hosts_answer_counts_as_yes(host: Host) -> None:
    down = make_host("down", port=free_port())
    change(down, address="127.0.0.1")
    behind = make_host("behind", jump=host)
    answers = Gate().port_answers([host.pk, down.pk, behind.pk])
    assert answers == {host.pk: True, down.pk: False, behind.pk: True}
    down.refresh_from_db()
    assert (down.last_error, Gate().looks_down(down.pk)) == ("Nothing answers on its SSH port.", True)
    assert not Gate().looks_down(host.pk)


def test_a_login_notes_when_the_host_was_seen_and_forgets_the_error(host: Host) -> None:
    before = timezone.now()
    gate.note_failure(host.pk, "was away")
    Gate().open(host.pk, no_check).close()
    host.refresh_from_db()
    assert (host.last_error, host.last_error_at, Gate().seen_since(host.pk, before)) == ("", None, True)
    assert not Gate().seen_since(host.pk, timezone.now())


def test_a_host_that_is_down_is_noted_once(host: Host) -> None:
    change(host, port=free_port())
    with pytest.raises(HostDown, match="calm"):
        Gate().open(host.pk, no_check)
    host.refresh_from_db()
    first = host.last_error_at
    gate.note_failure(host.pk, host.last_error)
    host.refresh_from_db()
    assert (host.last_error_at, "calm" in host.last_error) == (first, True)


def test_another_reason_is_noted_anew(host: Host) -> None:
    gate.note_failure(host.pk, "one")
    gate.note_failure(host.pk, "two" * 200)
    host.refresh_from_db()
    assert host.last_error == ("two" * 200)[:300]


def test_a_refused_key_is_no_wait(host: Host) -> None:
    Credential.objects.update(private_key_sealed=seal(generate_key("other")[0]))
    with pytest.raises(HostRefused) as refused:
        Gate().open(host.pk, no_check)
    host.refresh_from_db()
    assert (refused.value.code, host.last_error) == (Failure.AUTH_FAILED, str(refused.value)[:300])


def test_another_host_key_is_named_as_such(host: Host) -> None:
    public = generate_key("other host")[1].split()[1]
    HostKey.objects.update(public=public)
    with pytest.raises(HostRefused) as refused:
        Gate().open(host.pk, no_check)
    assert refused.value.code == Failure.HOST_KEY_CHANGED


def test_a_host_key_nobody_accepted_is_named_as_such(host: Host) -> None:
    HostKey.objects.all().delete()
    with pytest.raises(HostRefused) as refused:
        Gate().open(host.pk, no_check)
    assert refused.value.code == Failure.HOST_KEY_UNKNOWN


def test_a_secret_of_another_master_key_is_refused_in_words_and_noted(host: Host) -> None:
    Credential.objects.update(private_key_sealed="of another key")
    with pytest.raises(HostRefused, match=r"put back the master\.key") as refused:
        Gate().open(host.pk, no_check)
    host.refresh_from_db()
    assert (refused.value.code, "master.key" in host.last_error) == (Failure.REFUSED, True)


def test_jump_hosts_in_a_circle_are_refused_in_words(host: Host) -> None:
    other = make_host("other", jump=host, credential=host.credential)
    change(host, jump=other)
    with pytest.raises(HostRefused, match="run in a circle"):
        Gate().open(host.pk, no_check)


def test_a_login_through_a_jump_host(host: Host, sshd: Sshd) -> None:
    inner = make_host("inner", port=sshd.port, user=sshd.user, credential=host.credential, jump=host)
    change(inner, address="127.0.0.1")
    pin(inner, sshd)
    with Gate().open(inner.pk, no_check) as shell:  # type: ignore[attr-defined]  # opaque to the engine only
        assert shell.run(["echo", "here"]).stdout == "here\n"


def test_a_paused_host_says_until_when_and_why(host: Host) -> None:
    assert Gate().paused(host.pk) == ""
    until = timezone.now() + timedelta(hours=1)
    change(host, paused_at=timezone.now(), paused_until=until, pause_reason="new disk")
    assert Gate().paused(host.pk) == f"calm is paused until {until:%Y-%m-%d %H:%M} (new disk): resume it first."
    change(host, paused_until=timezone.now() - timedelta(seconds=1))
    assert Gate().paused(host.pk) == ""


def test_a_removed_host_is_out_of_the_herd(host: Host) -> None:
    assert Gate().herd() == {host.pk: "calm"}
    change(host, removed_at=timezone.now(), last_seen=timezone.now())
    assert (Gate().herd(), Gate().paused(host.pk)) == ({}, "This host was removed: add it again first.")
    assert Gate().paused(0) == "This host was removed: add it again first."
    assert not Gate().seen_since(host.pk, timezone.now() - timedelta(days=1))


@pytest.mark.parametrize(("code", "failure"), [("auth_failed", "auth_failed"), ("incompatible", "refused")])
def test_codes_of_refusals(code: str, failure: str) -> None:
    assert gate.failure_of(code) == failure
