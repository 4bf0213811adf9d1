"""Forms of the pages about hosts with input that no person should be able to hurt anything with."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from django.utils import timezone

from hosts.forms import HerdRunForm, PauseForm, RestoreForm, RunForm, host_kinds
from hosts.models import Generation, GenerationStatus, Host
from hosts.store.manifest import write_manifest
from jobs.models import Job
from tests import people
from tests.factories import make_host, make_job
from tests.hosts.rows import disk, know, make_generation, make_source

if TYPE_CHECKING:
    from pathlib import Path

    from django.test import Client

pytestmark = pytest.mark.django_db
NUL = "a\x00b"
HUGE = "9" * 400


@pytest.fixture
def runner() -> Client:
    return people.runner()


@pytest.fixture
def host() -> Host:
    return make_host("pi1")


@pytest.fixture
def kept(host: Host, tmp_path: Path) -> Generation:
    """A generation on the disk with odd names in it."""
    made = make_generation(make_source(host), 3, root=tmp_path)
    tree = made.path / "tree"
    for name in ("docs/deep", "docs/a b", "docs/50%"):
        (tree / name).mkdir(parents=True)
    for name in ("docs/<b>.txt", "docs/50%/x", "docs/new\nline", "docs/caf\udce9"):
        (tree / name).write_text("x")
    write_manifest(tree, {}, None, made.path / "manifest.jsonl.gz")
    return made


def post(client: Client, name: str, *args: object, **data: Any) -> str:
    """The page that a form leads to."""
    answer = client.post(reverse(name, args=args), data, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def get(client: Client, name: str, *args: object, **query: str) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200
    return answer.content.decode()


# --- starting work


@pytest.mark.parametrize("kind", ["", "rm -rf /", NUL, "restore", "retention", "🐑", "Backup", "a" * 5000])
def test_a_kind_that_no_button_offers_starts_nothing(kind: str, runner: Client, host: Host) -> None:
    page = post(runner, "run_on_host", "pi1", kind=kind)
    assert "<h1>pi1" in page
    assert not Job.objects.exists()


@pytest.mark.parametrize("hosts", [[], [""], ["x"], ["-1"], [HUGE], [NUL], ["999999"]])
def test_hosts_that_are_none_start_nothing(hosts: list[str], runner: Client, host: Host) -> None:
    post(runner, "run_on_herd", kind="backup", hosts=hosts)
    assert not Job.objects.exists()


def test_one_host_that_is_gone_stops_the_whole_choice(runner: Client, host: Host) -> None:
    assert "That host is gone." in post(runner, "run_on_herd", kind="backup", hosts=[host.pk, 999_999])
    assert not Job.objects.exists()


def test_a_host_chosen_twice_is_asked_once(runner: Client, host: Host) -> None:
    post(runner, "run_on_herd", kind="backup", hosts=[host.pk, host.pk])
    assert Job.objects.count() == 1


def test_parameters_cannot_be_smuggled_in(runner: Client, host: Host) -> None:
    post(runner, "run_on_host", "pi1", kind="backup", accept_shrink="on", params='{"x": 1}', host_id="7")
    assert Job.objects.get().params == {"sources": "", "accept_shrink": False}


def test_a_button_offers_what_works_on_a_host_alone() -> None:
    kinds = [each.kind for each in host_kinds()]
    assert kinds[0] == "backup"
    assert not {"restore", "retention"} & set(kinds)
    assert RunForm({"kind": "backup_verify"}).is_valid()
    assert not HerdRunForm({"kind": "backup"}).is_valid()


# --- pausing


@pytest.mark.parametrize("hours", ["0", "-1", "8761", HUGE, "1.5", "two", "١٢x", NUL])
def test_hours_that_are_none_pause_nothing(hours: str, runner: Client, host: Host) -> None:
    post(runner, "pause_host", "pi1", hours=hours)
    host.refresh_from_db()
    assert host.paused_at is None


@pytest.mark.parametrize("reason", ["x" * 201, NUL])
def test_a_reason_that_no_row_may_hold_pauses_nothing(reason: str, runner: Client, host: Host) -> None:
    post(runner, "pause_host", "pi1", reason=reason)
    host.refresh_from_db()
    assert host.paused_at is None


@pytest.mark.parametrize("reason", ["", "ü" * 200, "<script>alert(1)</script>", "🐑 ‮evil"])
def test_any_other_reason_is_kept_and_shown_as_text(reason: str, runner: Client, host: Host) -> None:
    page = post(runner, "pause_host", "pi1", reason=reason)
    host.refresh_from_db()
    assert host.pause_reason == reason
    assert "<script>alert" not in page


def test_hours_are_counted_from_now() -> None:
    form = PauseForm({"hours": "8760"})
    assert form.is_valid()
    until = form.until()
    assert until
    assert timedelta(days=364, hours=23) < until - timezone.now() <= timedelta(days=365)


def test_no_hours_are_for_ever() -> None:
    form = PauseForm({})
    assert form.is_valid()
    assert form.until() is None


def test_a_paused_host_shows_until_when_and_the_way_out(runner: Client, host: Host) -> None:
    page = post(runner, "pause_host", "pi1", hours="3", reason="new disk")
    assert "Paused until" in page
    assert "new disk" in page
    assert "Resume this host" in page
    assert "Pause this host" not in page


def test_resuming_what_is_not_paused_is_no_fault(runner: Client, host: Host) -> None:
    assert "pi1 is looked after again." in post(runner, "resume_host", "pi1")


# --- what a generation holds


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("", ["docs/"]),
        ("docs", ["a b/", "deep/", "&lt;b&gt;.txt", "new%0Aline", "caf%E9"]),
        ("/docs/", ["deep/"]),
        ("docs/50%25", [">x<"]),
    ],
)
def test_names_are_shown_so_that_they_lead_back(path: str, names: list[str], runner: Client, kept: Generation) -> None:
    page = get(runner, "generation", "pi1", kept.pk, path=path)
    assert [name for name in names if name not in page] == []
    assert "<b>.txt" not in page


@pytest.mark.parametrize(
    "path", ["nowhere", "docs/nowhere", "..", "docs/..", ".", "//", "a" * 5000, "%", "%zz", "\udc00"]
)
def test_a_folder_that_is_not_there_is_an_empty_page_in_words(path: str, runner: Client, kept: Generation) -> None:
    address = reverse("generation", args=["pi1", kept.pk])
    answer = runner.get(address, {"path": path.encode("utf-8", "surrogatepass")})
    assert answer.status_code == 200
    assert "docs/deep" not in answer.content.decode()


def test_a_file_that_was_chosen_stands_in_the_form(runner: Client, kept: Generation) -> None:
    page = get(runner, "generation", "pi1", kept.pk, path="docs", file="docs/50%25/x")
    assert 'value="docs/50%25/x"' in page


@pytest.mark.parametrize("status", [GenerationStatus.WRITING, GenerationStatus.DELETING])
@pytest.mark.parametrize("name", ["generation", "restore", "keep_generation", "let_generation_go"])
def test_only_a_good_generation_has_a_page(
    name: str, status: GenerationStatus, runner: Client, kept: Generation
) -> None:
    Generation.objects.update(status=status)
    address = reverse(name, args=["pi1", kept.pk])
    answer = runner.get(address) if name == "generation" else runner.post(address)
    assert answer.status_code == 404


# --- restoring


@pytest.mark.parametrize(
    "data",
    [
        {"host": ""},
        {"host": HUGE},
        {"host": NUL},
        {"path": NUL},
        {"path": "docs//x"},
        {"path": "docs/."},
        {"to_path": NUL},
        {"to_path": " "},
        {"to_path": "srv"},
        {"to_path": "/"},
        {"to_path": "/srv/../etc"},
        {"to_path": "/boot"},
        {"path": "docs", "delete": "on"},
    ],
)
def test_a_restore_that_cannot_be_is_no_job(data: dict[str, str], runner: Client, host: Host, kept: Generation) -> None:
    page = post(runner, "restore", "pi1", kept.pk, **{"host": host.pk, **data})
    assert not Job.objects.exists()
    assert 'class="error' in page or "messages" in page


@pytest.mark.parametrize("path", ["docs/50%25/x", "docs/new%0Aline", "docs/caf%E9", "docs/a b", " lead", "trail "])
def test_odd_names_reach_the_job_as_they_are_shown(path: str, runner: Client, host: Host, kept: Generation) -> None:
    post(runner, "restore", "pi1", kept.pk, host=host.pk, path=path)
    assert Job.objects.get().params["path"] == path


def test_the_number_is_that_of_the_page_and_not_of_the_form(runner: Client, host: Host, kept: Generation) -> None:
    post(runner, "restore", "pi1", kept.pk, host=host.pk, sequence="99", source="/etc")
    params = Job.objects.get().params
    assert (params["sequence"], params["source"]) == ("3", "/srv/data")


def test_a_form_for_nobody_is_not_valid() -> None:
    assert "host" in RestoreForm({}).errors


@pytest.mark.parametrize("note", ["", "ü" * 200, "<i>x</i>"])
def test_a_note_is_kept_and_shown_as_text(note: str, runner: Client, kept: Generation) -> None:
    page = post(runner, "keep_generation", "pi1", kept.pk, note=note)
    kept.refresh_from_db()
    assert (kept.kept_note, bool(kept.kept_at)) == (note, True)
    assert "<i>x</i>" not in page


# --- what is shown


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '" onmouseover="x', "{{ 7|add:7 }}", "</textarea>"])
def test_what_a_host_says_of_itself_is_text(evil: str, runner: Client, host: Host) -> None:
    know(host, kernel=evil, model=evil, disks=(disk(evil, 50),))
    Host.objects.update(last_error=evil, last_error_at=timezone.now())
    for page in (get(runner, "hosts"), get(runner, "host", "pi1")):
        assert evil not in page or evil == "{{ 7|add:7 }}"
        assert ">14<" not in page


def test_a_host_without_anything_says_the_next_steps(runner: Client, host: Host) -> None:
    page = get(runner, "host", "pi1")
    for words in ("Nothing is known yet", "No job has run here yet", "./herder edit_host pi1 --source /srv"):
        assert words in page


def test_a_source_of_which_nothing_is_kept_says_the_next_step(runner: Client, host: Host) -> None:
    make_source(host, enabled=False)
    page = get(runner, "host", "pi1")
    assert "Nothing is kept of this source yet" in page
    assert "switched off" in page


def test_only_the_last_jobs_are_on_the_page_of_a_host(runner: Client, host: Host) -> None:
    for _ in range(12):
        make_job("host_facts", host)
        Job.objects.update(status="succeeded", finished_at=timezone.now())
        host.lanes.all().delete()
    assert get(runner, "host", "pi1").count("Read facts ") == 8


def test_a_host_of_another_spelling_is_not_found(runner: Client, host: Host) -> None:
    assert runner.get("/hosts/PI1/").status_code == 404
