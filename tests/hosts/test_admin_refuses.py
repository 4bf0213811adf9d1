"""What the administration refuses: people without the right, secrets going out, and input that no row may hold."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.sites import site
from django.contrib.messages.storage.fallback import FallbackStorage
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts.admin_forms import KeyInput, SecretInput
from hosts.enrol import backup_schedule
from hosts.host_keys import generate_key
from hosts.models import BackupRoot, Credential, Host, HostKey, Source
from hosts.vault import seal, unseal
from tests import people
from tests.factories import make_credential, make_host, make_job
from tests.hosts.rows import know, make_generation, make_source

pytestmark = pytest.mark.django_db
NUL = "a\x00b"
HUGE = "9" * 400


@pytest.fixture
def boss() -> Client:
    return people.boss()


def send(client: Client, model: str, pk: int | None = None, **data: Any) -> str:
    """The page after a form was sent."""
    address = reverse(f"admin:hosts_{model}_{'change' if pk else 'add'}", args=[pk] if pk else [])
    answer = client.post(address, data, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def host_form(**changes: Any) -> dict[str, Any]:
    """A form that would make a host."""
    forms = {
        f"{name}-{field}": 0 for name in ("sources", "keys") for field in ("TOTAL_FORMS", "INITIAL_FORMS")
    }  # fmt: skip
    numbers = {"port": 22, "bandwidth_kib": 0, "keep_last": 3, "keep_daily": 7, "keep_weekly": 4, "keep_monthly": 6}
    texts = {"name": "new", "address": "192.0.2.7", "user": "root", "backup_limit": "02:00:00"}
    return {**forms, **numbers, **texts, "credential": make_credential().pk, **changes}


def act(client: Client, action: str, *hosts: Host) -> str:
    data = {"action": action, "_selected_action": [host.pk for host in hosts]}
    return client.post("/admin/hosts/host/", data, follow=True).content.decode()


# --- who may


@pytest.mark.parametrize("action", ["pause", "resume", "remove"])
def test_who_may_only_look_has_no_actions(action: str) -> None:
    host = make_host(paused_at=timezone.now()) if action == "resume" else make_host()
    act(people.reader(), action, host)
    after = Host.objects.get()
    assert (after.paused_at, after.removed_at) == (host.paused_at, None)


def test_who_may_only_look_sees_no_secret_and_no_button() -> None:
    host = make_host(sudo_password_sealed="PLANTED")
    reader = people.reader()
    page = reader.get(reverse("admin:hosts_host_change", args=[host.pk])).content.decode()
    assert "PLANTED" not in page
    assert 'name="_save"' not in page


def test_who_may_only_look_changes_no_pin_and_no_key() -> None:
    host = make_host()
    reader = people.reader()
    line = {"host": host.pk, "line": generate_key("x")[1]}
    assert reader.post(reverse("admin:hosts_hostkey_add"), line).status_code == 403
    assert reader.post(reverse("admin:hosts_credential_add"), {"name": "x"}).status_code == 403
    assert not HostKey.objects.exists()


@pytest.mark.parametrize("model", ["generation", "hostfacts"])
def test_what_the_engine_writes_is_changed_by_nobody(model: str, boss: Client) -> None:
    made = make_generation(make_source(make_host()))
    know(made.source.host, kernel="6.6")
    pk = made.pk if model == "generation" else made.source.host_id
    address = reverse(f"admin:hosts_{model}_change", args=[pk])
    assert boss.post(address, {"status": "deleting"}).status_code == 403
    assert boss.post(reverse(f"admin:hosts_{model}_delete", args=[pk]), {"post": "yes"}).status_code == 403


def test_a_pin_is_taken_away_but_never_changed(boss: Client) -> None:
    pin = HostKey.objects.create(host=make_host(), key_type="ssh-ed25519", public="AAAA", fingerprint="SHA256:x")
    assert boss.post(reverse("admin:hosts_hostkey_change", args=[pin.pk]), {"line": "x"}).status_code == 403
    boss.post(reverse("admin:hosts_hostkey_delete", args=[pin.pk]), {"post": "yes"})
    assert not HostKey.objects.exists()


def test_a_key_that_opens_a_host_is_not_deleted(boss: Client) -> None:
    key = make_host().credential
    page = boss.post(reverse("admin:hosts_credential_delete", args=[key.pk]), {"post": "yes"}, follow=True)
    assert "Cannot delete credential" in page.content.decode()
    assert Credential.objects.filter(pk=key.pk).exists()


def test_a_key_that_opens_nothing_is_deleted(boss: Client) -> None:
    key = make_credential()
    boss.post(reverse("admin:hosts_credential_delete", args=[key.pk]), {"post": "yes"})
    assert not Credential.objects.exists()


# --- bad input


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "a b"),
        ("name", "../x"),
        ("name", "grün"),
        ("name", NUL),
        ("name", "a" * 61),
        ("address", ""),
        ("address", NUL),
        ("address", "a" * 256),
        ("port", ""),
        ("port", "0"),
        ("port", "65536"),
        ("port", HUGE),
        ("port", "22; reboot"),
        ("user", ""),
        ("user", NUL),
        ("credential", ""),
        ("credential", HUGE),
        ("jump", HUGE),
        ("backup_root", "x"),
        ("bandwidth_kib", "-1"),
        ("bandwidth_kib", HUGE),
        ("backup_limit", "soon"),
        ("keep_last", "0"),
        ("keep_daily", "-1"),
        ("before_hook", NUL),
        ("sudo_password", NUL),
    ],
)
def test_a_host_that_cannot_be_stored_is_told_at_its_field(field: str, value: str, boss: Client) -> None:
    assert "errorlist" in send(boss, "host", **host_form(**{field: value}))
    assert not Host.objects.exists()
    assert not PeriodicTask.objects.filter(name__startswith="Backup of").exists()


def test_a_name_that_is_taken_is_refused_also_when_its_host_was_removed(boss: Client) -> None:
    make_host("new", removed_at=timezone.now())
    assert "already exists" in send(boss, "host", **host_form())


def test_a_removed_host_is_not_removed_again(boss: Client) -> None:
    host = make_host(removed_at=timezone.now())
    page = act(boss, "remove", host)
    assert "is removed; its generations stay" not in page
    host.refresh_from_db()
    assert host.removed_at


def test_a_removal_switches_the_schedule_off(boss: Client) -> None:
    host = make_host()
    backup_schedule(host)
    act(boss, "remove", host)
    assert not PeriodicTask.objects.get().enabled


def test_a_jump_host_is_not_removed_from_under_others(boss: Client) -> None:
    gate = make_host("gate")
    make_host("inner", jump=gate)
    assert "Not removed: gate is the jump host of inner" in act(boss, "remove", gate)
    assert Host.herd.filter(name="gate").exists()


def test_a_pause_of_the_administration_names_who_set_it(boss: Client) -> None:
    act(boss, "pause", make_host())
    assert Host.objects.get().pause_reason == "paused by boss"


def test_a_host_cannot_be_its_own_way(boss: Client) -> None:
    host = make_host("new")
    data = host_form(jump=host.pk, credential=host.credential_id)
    assert "through itself" in send(boss, "host", host.pk, **data)


def test_a_new_password_and_forgetting_it_is_forgetting(boss: Client) -> None:
    host = make_host("new", sudo_password_sealed=seal("old"))
    send(boss, "host", host.pk, **host_form(sudo_password="PLANTED", forget_sudo="on"))
    host.refresh_from_db()
    assert host.sudo_password_sealed == ""


@pytest.mark.parametrize("password", [" lead", "trail ", "pässwörd🐑", "a" * 500])
def test_a_password_is_kept_letter_by_letter(password: str, boss: Client) -> None:
    host = make_host("new")
    send(boss, "host", host.pk, **host_form(sudo_password=password))
    host.refresh_from_db()
    assert unseal(host.sudo_password_sealed) == password


def test_fields_for_secrets_send_nothing_back() -> None:
    assert "PLANTED" not in SecretInput().render("x", "PLANTED")
    assert "PLANTED" not in KeyInput().render("x", "PLANTED")
    assert 'autocomplete="new-password"' in SecretInput().render("x", None)


@pytest.mark.parametrize(
    "text", ["PLANTED", f"PLANTED{NUL}", "🐑PLANTED", "-----BEGIN OPENSSH PRIVATE KEY-----\nPLANTED"]
)
def test_what_is_no_private_key_is_refused_and_not_sent_back(text: str, boss: Client) -> None:
    page = send(boss, "credential", name="bad", private_key=text)
    assert "errorlist" in page
    assert "PLANTED" not in page


@pytest.mark.parametrize("name", ["", "a b", NUL, "x" * 101])
def test_a_key_needs_a_plain_name(name: str, boss: Client) -> None:
    assert "errorlist" in send(boss, "credential", name=name, private_key="")
    assert not Credential.objects.exists()


def test_a_replaced_key_changes_both_halves(boss: Client) -> None:
    key = make_credential("mine")
    private, public = generate_key("new")
    send(boss, "credential", key.pk, name="mine", private_key=private)
    key.refresh_from_db()
    assert key.public_key.split()[1] == public.split()[1]
    assert unseal(key.private_key_sealed).strip() == private.strip()


def test_a_public_key_pasted_as_a_private_one_is_refused(boss: Client) -> None:
    assert "errorlist" in send(boss, "credential", name="mine", private_key=generate_key("x")[1])


@pytest.mark.parametrize("line", ["", "x", "ssh-ed25519", "ssh-ed25519 AAAA", NUL, "ssh-dss AAAAB3NzaC1kc3M=", "🐑 🐑"])
def test_a_line_that_is_no_host_key_is_refused(line: str, boss: Client) -> None:
    assert "errorlist" in send(boss, "hostkey", host=make_host().pk, line=line)
    assert not HostKey.objects.exists()


# --- sources and roots


def source_form(host: Host, **changes: Any) -> dict[str, Any]:
    return {"host": host.pk, "path": "/srv/new", "excludes": "", "shrink_percent": 50, "enabled": "on", **changes}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", ""),
        ("path", NUL),
        ("path", "/srv/a\nb"),
        ("path", "/"),
        ("path", "/srv/" + "a" * 1000),
        ("excludes", NUL),
        ("shrink_percent", "101"),
        ("shrink_percent", "-1"),
        ("shrink_percent", HUGE),
        ("host", HUGE),
    ],
)
def test_a_source_that_cannot_be_is_told_at_its_field(field: str, value: str, boss: Client) -> None:
    assert "errorlist" in send(boss, "source", **{**source_form(make_host()), field: value})
    assert not Source.objects.exists()


@pytest.mark.parametrize("path", ["/srv/data", "/srv/data/x", "/srv"])
def test_a_source_inside_another_is_refused_as_at_every_door(path: str, boss: Client) -> None:
    source = make_source(make_host())
    assert "errorlist" in send(boss, "source", **source_form(source.host, path=path))
    assert Source.objects.get() == source


def test_one_that_is_switched_off_is_in_nobodys_way(boss: Client) -> None:
    source = make_source(make_host(), enabled=False)
    send(boss, "source", **source_form(source.host, path="/srv"))
    assert Source.objects.filter(path="/srv").exists()


def test_one_that_is_switched_on_again_may_lie_in_no_other(boss: Client) -> None:
    off = make_source(make_host(), enabled=False)
    make_source(off.host, "/srv")
    page = send(boss, "source", off.pk, **source_form(off.host))
    assert "/srv/data and the source /srv lie in each other: choose one." in page
    off.refresh_from_db()
    assert not off.enabled


def test_what_is_on_is_edited_without_a_look_at_itself(boss: Client) -> None:
    source = make_source(make_host())
    send(boss, "source", source.pk, **source_form(source.host, excludes="*.tmp"))
    assert Source.objects.get().excludes == ["*.tmp"]


def test_a_source_of_another_host_is_in_nobodys_way(boss: Client) -> None:
    make_source(make_host())
    send(boss, "source", **source_form(make_host(), path="/srv/data"))
    assert Source.objects.count() == 2


def test_a_new_default_root_takes_that_from_the_old_one(boss: Client) -> None:
    BackupRoot.objects.create(path="/mnt/a", is_default=True)
    send(boss, "backuproot", path="/mnt/b", make_default="on")
    assert dict(BackupRoot.objects.values_list("path", "is_default")) == {"/mnt/a": False, "/mnt/b": True}


def test_a_root_that_is_there_becomes_the_default_one_in_one_step(boss: Client) -> None:
    BackupRoot.objects.create(path="/mnt/a", is_default=True)
    other = BackupRoot.objects.create(path="/mnt/b")
    page = send(boss, "backuproot", other.pk, make_default="on")
    assert "errorlist" not in page
    assert BackupRoot.objects.get(is_default=True) == other


@pytest.mark.parametrize("path", ["", "mnt", "/mnt/../etc", NUL, "/" + "a" * 1000])
def test_a_root_that_cannot_be(path: str, boss: Client) -> None:
    assert "errorlist" in send(boss, "backuproot", path=path)
    assert not BackupRoot.objects.exists()


@pytest.mark.parametrize("query", ["q=%00", "q=" + "a" * 3000, "q=%F0%9F%90%91", "p=99999999999", "o=9.9.9", "e=1"])
@pytest.mark.parametrize("model", ["host", "source", "generation"])
def test_odd_searches_break_nothing(model: str, query: str, boss: Client) -> None:
    make_generation(make_source(make_host()))
    answer = boss.get(f"{reverse(f'admin:hosts_{model}_changelist')}?{query}", follow=True)
    assert answer.status_code == 200


def test_a_refused_removal_is_an_error_and_the_others_go_on() -> None:
    request = RequestFactory().post("/")
    request.session, request.user = {}, None  # type: ignore[assignment]  # nothing of them is asked
    request._messages = FallbackStorage(request)  # type: ignore[attr-defined]  # what the middleware sets
    busy, idle = make_host("busy"), make_host("idle")
    make_job("host_facts", busy)
    site._registry[Host].remove(request, Host.objects.order_by("name"))  # type: ignore[attr-defined]  # our admin
    said = [(message.level_tag, str(message).split(" ")[0]) for message in request._messages]  # type: ignore[attr-defined]  # set above
    assert said == [("error", "Not"), ("success", "The")]
    assert list(Host.herd.all()) == [busy]
    assert idle.pk
