"""Hosts in the administration: secrets go in and never come out, what others stand on is not deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts.host_keys import generate_key
from hosts.models import BackupRoot, Credential, Host, HostKey, Source
from hosts.vault import seal, unseal
from tests import people
from tests.factories import make_credential, make_host, make_job
from tests.hosts.rows import know, make_generation, make_source

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db
MODELS = ("host", "credential", "hostkey", "source", "backuproot", "generation", "hostfacts")
EMPTY = {
    f"{name}-{field}": number
    for name in ("sources", "keys")
    for field, number in (("TOTAL_FORMS", 0), ("INITIAL_FORMS", 0))
}


@pytest.fixture
def boss() -> Client:
    return people.boss()


def send(client: Client, model: str, pk: int | None = None, **data: Any) -> str:
    """Save a form; the page that follows, or the form with its errors."""
    address = reverse(f"admin:hosts_{model}_{'change' if pk else 'add'}", args=[pk] if pk else [])
    return client.post(address, data, follow=True).content.decode()


def as_form(host: Host, **changes: Any) -> dict[str, Any]:
    """What the form of a host sends."""
    keeps = ("keep_last", "keep_daily", "keep_weekly", "keep_monthly")
    names = ("name", "address", "port", "user", "bandwidth_kib", *keeps)
    fields = {name: getattr(host, name) for name in names}
    return {**fields, "credential": host.credential_id, "backup_limit": "02:00:00", **EMPTY, **changes}


def act(client: Client, action: str, *hosts: Host) -> str:
    data = {"action": action, "_selected_action": [host.pk for host in hosts]}
    return client.post("/admin/hosts/host/", data, follow=True).content.decode()


@pytest.mark.parametrize("model", MODELS)
def test_lists_and_rows_open(boss: Client, model: str) -> None:
    host = make_host()
    know(host, kernel="6.6")
    make_generation(make_source(host))
    HostKey.objects.create(host=host, key_type="ssh-ed25519", public="AAAA", fingerprint="SHA256:y")
    shown = boss.get(reverse(f"admin:hosts_{model}_changelist"))
    assert shown.status_code == 200
    pk = shown.context["cl"].result_list[0].pk
    assert boss.get(reverse(f"admin:hosts_{model}_change", args=[pk])).status_code == 200


@pytest.mark.parametrize("model", ["generation", "hostfacts"])
def test_what_the_engine_writes_is_read_only(boss: Client, model: str) -> None:
    assert boss.get(reverse(f"admin:hosts_{model}_add")).status_code == 403


@pytest.mark.parametrize("model", ["host", "source", "backuproot", "generation"])
def test_what_others_stand_on_is_not_deleted(boss: Client, model: str) -> None:
    generation = make_generation(make_source(make_host()))
    rows = {"host": generation.source.host, "source": generation.source, "backuproot": generation.root}
    row = rows.get(model, generation)
    assert boss.post(reverse(f"admin:hosts_{model}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    assert type(row).objects.filter(pk=row.pk).exists()  # type: ignore[attr-defined]  # each is a model


def test_hosts_cost_the_same_however_many(boss: Client, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for _ in range(30):
        make_generation(make_source(make_host()))
    for model in ("host", "source", "generation"):
        with django_assert_max_num_queries(12):
            boss.get(reverse(f"admin:hosts_{model}_changelist"))


# --- hosts


def test_a_new_host_gets_its_nightly_backup(boss: Client) -> None:
    send(boss, "host", **as_form(Host(name="new", address="192.0.2.7", credential=make_credential())))
    assert Host.objects.get().name == "new"
    assert PeriodicTask.objects.filter(name="Backup of new").exists()


def test_the_name_of_a_host_stays(boss: Client) -> None:
    host = make_host("old")
    send(boss, "host", host.pk, **as_form(host, name="other", address="192.0.2.99"))
    host.refresh_from_db()
    assert (host.name, host.address) == ("old", "192.0.2.99")


def test_a_sudo_password_is_sealed_and_never_shown(boss: Client) -> None:
    host = make_host()
    send(boss, "host", host.pk, **as_form(host, sudo_password="PLANTED "))
    host.refresh_from_db()
    assert unseal(host.sudo_password_sealed) == "PLANTED "
    shown = boss.get(reverse("admin:hosts_host_change", args=[host.pk])).content.decode()
    assert "PLANTED" not in shown
    assert host.sudo_password_sealed not in shown


def test_a_refused_form_does_not_send_the_password_back(boss: Client) -> None:
    host = make_host()
    shown = send(boss, "host", host.pk, **as_form(host, sudo_password="PLANTED", port=0))
    assert "greater than or equal to 1" in shown
    assert "PLANTED" not in shown


def test_an_empty_password_keeps_the_stored_one(boss: Client) -> None:
    host = make_host(sudo_password_sealed=seal("kept"))
    send(boss, "host", host.pk, **as_form(host))
    host.refresh_from_db()
    assert unseal(host.sudo_password_sealed) == "kept"


def test_the_stored_password_is_forgotten_on_wish(boss: Client) -> None:
    host = make_host(sudo_password_sealed=seal("old"))
    send(boss, "host", host.pk, **as_form(host, forget_sudo="on"))
    host.refresh_from_db()
    assert host.sudo_password_sealed == ""


def test_no_way_leads_in_a_circle(boss: Client) -> None:
    first = make_host()
    second = make_host(jump=first)
    assert "through itself" in send(boss, "host", first.pk, **as_form(first, jump=second.pk))
    first.refresh_from_db()
    assert first.jump is None


def test_pause_and_resume(boss: Client) -> None:
    host = make_host()
    act(boss, "pause", host)
    host.refresh_from_db()
    assert host.paused()
    act(boss, "resume", host)
    host.refresh_from_db()
    assert not host.paused()


def test_removal_keeps_the_row_and_is_refused_while_work_is_active(boss: Client) -> None:
    idle, busy = make_host(), make_host()
    make_job("host_facts", busy)
    shown = act(boss, "remove", idle, busy)
    assert f"The host {idle.name} is removed" in shown
    assert f"Not removed: {busy.name} has work that has not ended" in shown
    assert set(Host.herd.all()) == {busy}


# --- keys


def test_a_pasted_key_is_sealed_and_never_shown(boss: Client) -> None:
    private, public = generate_key("pasted")
    send(boss, "credential", name="mine", private_key=private)
    key = Credential.objects.get()
    assert unseal(key.private_key_sealed).strip() == private.strip()
    assert key.public_key.split()[1] == public.split()[1]
    shown = boss.get(reverse("admin:hosts_credential_change", args=[key.pk])).content.decode()
    assert "PRIVATE KEY" not in shown
    assert key.private_key_sealed not in shown
    assert public.split()[1] in shown


def test_a_new_key_is_made_when_none_is_pasted(boss: Client) -> None:
    send(boss, "credential", name="fresh", private_key="")
    assert "PRIVATE KEY" in unseal(Credential.objects.get().private_key_sealed)


def test_an_empty_field_keeps_the_stored_key(boss: Client) -> None:
    key = make_credential("kept")
    send(boss, "credential", key.pk, name="renamed", private_key="")
    key.refresh_from_db()
    assert (key.name, key.private_key_sealed) == ("renamed", "x")


def test_a_broken_key_is_refused_and_not_sent_back(boss: Client) -> None:
    shown = send(boss, "credential", name="bad", private_key="-----BEGIN PLANTED-----")
    assert "PLANTED" not in shown
    assert "errorlist" in shown
    assert not Credential.objects.exists()


def test_a_key_is_stored_once(boss: Client) -> None:
    private, _ = generate_key("twice")
    send(boss, "credential", name="one", private_key=private)
    assert "stored already" in send(boss, "credential", name="two", private_key=private)


def test_a_pin_says_who_compared_it(boss: Client) -> None:
    host = make_host()
    _, line = generate_key("host")
    send(boss, "hostkey", host=host.pk, line=line)
    pin = host.keys.get()
    assert (pin.key_type, pin.pinned_by) == ("ssh-ed25519", "boss")
    assert pin.public == line.split()[1]
    assert "delete that one first" in send(boss, "hostkey", host=host.pk, line=line)


def test_a_pin_that_is_no_key_is_refused(boss: Client) -> None:
    assert "errorlist" in send(boss, "hostkey", host=make_host().pk, line="ssh-ed25519 nonsense")
    assert not HostKey.objects.exists()


# --- sources and roots


def test_a_source_gets_its_folder(boss: Client) -> None:
    send(boss, "source", host=make_host().pk, path="/srv/data/", excludes="*.tmp\n\n cache/ \n", shrink_percent=50)
    source = Source.objects.get()
    assert (source.path, source.folder, source.excludes) == ("/srv/data", "srv-data", ["*.tmp", "cache/"])


@pytest.mark.parametrize("path", ["srv", "/srv/*", "/proc", "/srv/../etc"])
def test_a_source_that_must_not_be_is_refused(boss: Client, path: str) -> None:
    assert "errorlist" in send(boss, "source", host=make_host().pk, path=path, excludes="", shrink_percent=50)
    assert not Source.objects.exists()


def test_the_path_of_a_source_stays(boss: Client) -> None:
    source = make_source(make_host(), excludes=["a"])
    assert ">\na</textarea>" in boss.get(reverse("admin:hosts_source_change", args=[source.pk])).content.decode()
    send(boss, "source", source.pk, path="/other", excludes="b", shrink_percent=40)
    source.refresh_from_db()
    assert (source.path, source.excludes, source.shrink_percent) == ("/srv/data", ["b"], 40)


def test_sources_are_edited_on_the_page_of_their_host(boss: Client) -> None:
    host = make_host()
    row = {"path": "/srv/inline", "excludes": "x", "shrink_percent": 50, "enabled": "on", "id": "", "host": host.pk}
    data = {**as_form(host), "sources-TOTAL_FORMS": 1, **{f"sources-0-{name}": value for name, value in row.items()}}
    send(boss, "host", host.pk, **data)
    assert host.sources.get().folder == "srv-inline"


def test_a_root_is_absolute(boss: Client) -> None:
    assert "is not absolute" in send(boss, "backuproot", path="backups")
    send(boss, "backuproot", path="/mnt/backups/")
    assert BackupRoot.objects.get().path == "/mnt/backups"


def test_a_removed_host_is_told_apart(boss: Client) -> None:
    make_host("gone", removed_at=timezone.now())
    make_host("here")
    page = boss.get("/admin/hosts/host/", {"removed_at__isempty": 1}).content.decode()
    assert "here" in page
    assert ">gone<" not in page
