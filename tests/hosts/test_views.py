"""The pages about hosts, through the whole stack of middleware."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from django.utils import timezone

from hosts.models import Generation, Host
from hosts.store.manifest import write_manifest
from jobs.models import Door, Job
from tests import people
from tests.factories import make_host, make_job
from tests.hosts.rows import disk, know, make_generation, make_source

if TYPE_CHECKING:
    from pathlib import Path

    from django.test import Client
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true"}


@pytest.fixture
def reader() -> Client:
    return people.reader()


@pytest.fixture
def runner() -> Client:
    return people.runner()


@pytest.fixture
def host() -> Host:
    return make_host("pi-attic")


@pytest.fixture
def generation(host: Host) -> Generation:
    return make_generation(make_source(host), 7)


def shown(client: Client, name: Any, *args: object, **query: str) -> str:
    response = client.get(reverse(name, args=args), query)
    assert response.status_code == 200
    return response.content.decode()


def said(client: Client, name: str, *args: object, **data: object) -> str:
    """The page that a form leads to."""
    return client.post(reverse(name, args=args), data, follow=True).content.decode()


# --- the list


def test_a_host_at_a_glance(reader: Client, host: Host) -> None:
    Host.objects.update(last_seen=timezone.now() - timedelta(minutes=5))
    know(host, disks=(disk("/srv", 95),))
    page = shown(reader, "hosts")
    assert "pi-attic" in page
    assert "5 min ago" in page
    assert "95 % /srv" in page
    assert "Disk /srv is 95 % full." in page
    assert "it has no sources" in page


def test_why_a_host_is_down_is_shown(reader: Client) -> None:
    make_host(last_error="It <b>sleeps</b>.", last_error_at=timezone.now())
    assert "It &lt;b&gt;sleeps&lt;/b&gt;." in shown(reader, "hosts")


def test_an_empty_herd_says_the_next_step(reader: Client) -> None:
    assert "./herder add_host" in shown(reader, "hosts")


def test_the_list_is_polled_only_while_work_is_active(reader: Client, host: Host) -> None:
    assert "every 4s" not in shown(reader, "hosts")
    make_job("host_facts", host)
    assert "every 4s" in reader.get(reverse("hosts"), headers=PART).content.decode()


def test_the_list_costs_the_same_with_many_hosts(
    runner: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(25):
        host = make_host()
        make_generation(make_source(host))
        make_job("host_facts", host)
    with django_assert_max_num_queries(12):
        shown(runner, "hosts")


def test_work_on_several_hosts_answers_for_each(runner: Client) -> None:
    free, busy, same, paused = (make_host(name) for name in ("free", "busy", "same", "paused"))
    restore = make_job("restore", busy)
    there = make_job("backup", same, {"sources": "", "accept_shrink": False})
    Host.objects.filter(pk=paused.pk).update(paused_at=timezone.now(), pause_reason="new disk")
    page = said(runner, "run_on_herd", kind="backup", hosts=[each.pk for each in (free, busy, same, paused)])
    started = Job.objects.get(host=free)
    assert f'free: started <a href="/jobs/{started.pk}/">' in page
    assert "busy: refused." in page
    assert f"See job {restore.pk}" in page
    assert f'same: attached to <a href="/jobs/{there.pk}/">' in page
    assert "paused: refused. paused is paused (new disk)" in page


@pytest.mark.parametrize(
    ("kind", "hosts", "words"),
    [("backup", [], "Choose at least one host"), ("backup", [9999], "gone"), ("restore", [1], "Select a valid choice")],
)
def test_a_bad_choice_starts_nothing(runner: Client, kind: str, hosts: list[int], words: str) -> None:
    make_host(id=1)
    assert words in said(runner, "run_on_herd", kind=kind, hosts=hosts)
    assert not Job.objects.exists()


# --- one host


def test_a_host_shows_facts_disks_backups_and_jobs(reader: Client, host: Host, generation: Generation) -> None:
    know(host, kernel="6.6.51", disks=(disk("/", 41),))
    job = make_job("host_facts", host)
    page = shown(reader, "host", host.name)
    assert "6.6.51" in page
    assert "41.0 of 100.0 GiB" in page
    assert f"/hosts/pi-attic/generations/{generation.pk}/" in page
    assert f"/jobs/{job.pk}/" in page


def test_a_host_that_is_unknown_or_removed_is_not_found(reader: Client) -> None:
    make_host("gone", removed_at=timezone.now())
    assert reader.get("/hosts/gone/").status_code == 404
    assert reader.get("/hosts/never/").status_code == 404


def test_a_page_of_a_host_costs_the_same_with_many_generations(
    reader: Client, host: Host, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for path in ("/srv/a", "/srv/b", "/srv/c"):
        source = make_source(host, path)
        for number in range(1, 15):
            make_generation(source, number)
    with django_assert_max_num_queries(12):
        shown(reader, "host", host.name)


def test_the_button_leads_to_the_job(runner: Client, host: Host) -> None:
    response = runner.post(reverse("run_on_host", args=[host.name]), {"kind": "backup"})
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert (job.kind, job.host, job.door, job.requested_name) == ("backup", host, Door.PAGE, "runner")


def test_pressing_twice_leads_to_the_same_job(runner: Client, host: Host) -> None:
    first = runner.post(reverse("run_on_host", args=[host.name]), {"kind": "backup"})
    second = runner.post(reverse("run_on_host", args=[host.name]), {"kind": "backup"})
    assert first["Location"] == second["Location"]
    assert Job.objects.count() == 1


def test_a_refusal_is_said_on_the_page_of_the_host(runner: Client, host: Host) -> None:
    job = make_job("restore", host)
    page = said(runner, "run_on_host", host.name, kind="backup")
    assert f"See job {job.pk}" in page
    assert "<h1>pi-attic" in page


def test_a_kind_that_is_none_starts_nothing(runner: Client, host: Host) -> None:
    assert "Select a valid choice" in said(runner, "run_on_host", host.name, kind="rm")
    assert not Job.objects.exists()


def test_pause_and_resume(runner: Client, host: Host) -> None:
    said(runner, "pause_host", host.name, reason="new disk", hours="2")
    host.refresh_from_db()
    assert host.paused()
    assert host.paused_until
    assert "Resume this host" in shown(runner, "host", host.name)
    said(runner, "resume_host", host.name)
    host.refresh_from_db()
    assert not host.paused()


def test_a_pause_of_no_hours_is_refused(runner: Client, host: Host) -> None:
    assert "greater than or equal to 1" in said(runner, "pause_host", host.name, hours="0")
    host.refresh_from_db()
    assert not host.paused()


# --- one generation


def test_a_generation_shows_what_proves_it(reader: Client, generation: Generation) -> None:
    Generation.objects.update(verified_at=timezone.now(), verified_files=12, files=345678)
    page = shown(reader, "generation", "pi-attic", generation.pk)
    assert "345,678" in page
    assert "12 files" in page


def test_only_who_may_restore_sees_names(reader: Client, runner: Client, host: Host, tmp_path: Path) -> None:
    found = make_generation(make_source(host), root=tmp_path)
    (found.path / "tree" / "docs").mkdir(parents=True)
    (found.path / "tree" / "docs" / "secret<i>.txt").write_text("x")
    write_manifest(found.path / "tree", {}, None, found.path / "manifest.jsonl.gz")
    assert "docs" not in shown(reader, "generation", host.name, found.pk)
    assert "docs/" in shown(runner, "generation", host.name, found.pk)
    assert "secret&lt;i&gt;.txt" in shown(runner, "generation", host.name, found.pk, path="docs")


def test_a_path_outside_is_refused_in_words(runner: Client, generation: Generation) -> None:
    page = shown(runner, "generation", "pi-attic", generation.pk, path="../../etc")
    assert "is not a name inside a generation" in page


def test_a_generation_of_another_host_is_not_found(reader: Client, generation: Generation) -> None:
    other = make_host("other")
    assert reader.get(reverse("generation", args=[other.name, generation.pk])).status_code == 404


def test_restore_asks_for_the_job(runner: Client, host: Host, generation: Generation) -> None:
    data = {"host": host.pk, "path": "docs/a.txt", "to_path": "/srv/back"}
    response = runner.post(reverse("restore", args=[host.name, generation.pk]), data)
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert (job.kind, job.host) == ("restore", host)
    assert job.params == {
        "from_host": "", "source": "/srv/data", "sequence": "7", "path": "docs/a.txt", "to_path": "/srv/back",
        "dry_run": False, "delete": False, "allow_system": False,
    }  # fmt: skip


def test_restore_to_another_host_names_the_first(runner: Client, generation: Generation) -> None:
    other = make_host("other")
    said(runner, "restore", "pi-attic", generation.pk, host=other.pk, dry_run="on")
    job = Job.objects.get()
    assert (job.host, job.params["from_host"], job.params["dry_run"]) == (other, "pi-attic", True)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"to_path": "relative"}, "is not absolute"),
        ({"to_path": "/etc/../usr"}, "contains"),
        ({"to_path": "/usr"}, "belongs to the operating system"),
        ({"path": "../x"}, "is not a name inside a generation"),
        ({"path": "a", "delete": "on"}, "Only a restore of a whole source may delete"),
    ],
)
def test_a_bad_restore_is_refused_in_words(
    runner: Client, host: Host, generation: Generation, data: dict[str, str], words: str
) -> None:
    assert words in said(runner, "restore", host.name, generation.pk, host=host.pk, **data)
    assert not Job.objects.exists()


def test_restore_to_no_host_is_refused(runner: Client, host: Host, generation: Generation) -> None:
    assert "Select a valid choice" in said(runner, "restore", host.name, generation.pk, host=9999)


def test_keep_and_let_go(runner: Client, host: Host, generation: Generation) -> None:
    page = said(runner, "keep_generation", host.name, generation.pk, note="before the <move>")
    assert "before the &lt;move&gt;" in page
    generation.refresh_from_db()
    assert generation.kept_at
    said(runner, "let_generation_go", host.name, generation.pk)
    generation.refresh_from_db()
    assert generation.kept_at is None


def test_a_note_that_is_too_long_is_refused(runner: Client, host: Host, generation: Generation) -> None:
    assert "at most 200" in said(runner, "keep_generation", host.name, generation.pk, note="n" * 201)


# --- rights


CHANGES = ("run_on_host", "pause_host", "resume_host", "restore", "keep_generation", "let_generation_go")


@pytest.mark.parametrize("name", [*CHANGES, "run_on_herd"])
def test_a_reader_changes_nothing(reader: Client, host: Host, generation: Generation, name: str) -> None:
    data = {"kind": "backup", "host": host.pk, "hosts": [host.pk]}
    response = reader.post(_address(name, generation), data)
    assert response.status_code == 403
    assert not Job.objects.exists()
    assert not Host.objects.filter(paused_at__isnull=False).exists()
    assert not Generation.objects.filter(kept_at__isnull=False).exists()


@pytest.mark.parametrize("name", [*CHANGES, "run_on_herd"])
def test_a_link_changes_nothing(runner: Client, generation: Generation, name: str) -> None:
    assert runner.get(_address(name, generation)).status_code == 405


def _address(name: str, generation: Generation) -> str:
    if name == "run_on_herd":
        return reverse(name)
    host = generation.source.host.name
    return reverse(name, args=[host] if name.endswith("_host") else [host, generation.pk])


def test_a_reader_sees_no_buttons(reader: Client, host: Host, generation: Generation) -> None:
    for page in (shown(reader, "hosts"), shown(reader, "host", host.name)):
        assert page.count("<button") == page.count("Log out") == 1


def test_sealed_fields_are_on_no_page(runner: Client, host: Host, generation: Generation) -> None:
    Host.objects.update(sudo_password_sealed="PLANTED")
    host.credential.private_key_sealed = "PLANTED"
    host.credential.save()
    for where in (("hosts",), ("host", host.name), ("generation", host.name, generation.pk)):
        assert "PLANTED" not in shown(runner, *where)
