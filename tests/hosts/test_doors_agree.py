"""A herd on hold, a paused and a removed host: every door says so, and none starts anything."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse
from django.utils import timezone

from hosts.models import Host
from jobs.models import EngineSettings, Job, Status
from tests import people
from tests.commands import Ran, herder, refused
from tests.factories import change, make_host, make_job
from tests.hosts.rows import make_generation, make_source
from tests.terminal import types

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from hosts.models import Generation

pytestmark = pytest.mark.django_db


@pytest.fixture
def generation() -> Generation:
    """What is kept of pi1."""
    return make_generation(make_source(make_host("pi1")))


def ended(host: Host) -> Job:
    """A job that could run again."""
    job = make_job("host_facts", host)
    job.lanes.all().delete()
    return change(job, status=Status.FAILED, finished_at=timezone.now())


def on_hold() -> None:
    EngineSettings.objects.create(pk=1, held_at=timezone.now(), held_by="ann", hold_reason="moving house")


def pause(**fields: object) -> None:
    Host.objects.update(paused_at=timezone.now(), pause_reason="new disk", **fields)


def post(client: Client, name: str, args: list[object], **data: object) -> str:
    return client.post(reverse(name, args=args), data, follow=True).content.decode()


PAGES: dict[str, Callable[[Client, Generation], str]] = {
    "run": lambda browser, kept: post(browser, "run_on_host", ["pi1"], kind="backup"),
    "herd": lambda browser, kept: post(browser, "run_on_herd", [], kind="backup", hosts=[kept.source.host.pk]),
    "restore": lambda browser, kept: post(browser, "restore", ["pi1", kept.pk], host=kept.source.host.pk),
    "again": lambda browser, kept: post(browser, "job_again", [ended(kept.source.host).pk]),
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run_job", "backup", "--host", "pi1"),
    "all": ("run_job", "backup", "--all-hosts"),
    "restore": ("restore", "pi1", "/srv/data"),
}


@pytest.mark.parametrize("door", PAGES)
def test_a_hold_is_said_on_every_page_that_starts_work(door: str, generation: Generation) -> None:
    on_hold()
    assert "The herd is on hold (moving house): release it first." in PAGES[door](people.runner(), generation)
    assert not Job.objects.filter(status=Status.PENDING).exists()


@pytest.mark.parametrize("door", PAGES)
def test_a_pause_is_said_on_every_page_that_starts_work(door: str, generation: Generation) -> None:
    pause()
    assert "pi1 is paused" in PAGES[door](people.runner(), generation)
    assert not Job.objects.filter(status=Status.PENDING).exists()


@pytest.mark.parametrize("door", COMMANDS)
def test_a_hold_is_said_by_every_command_that_starts_work(door: str, generation: Generation) -> None:
    on_hold()
    ran = herder(*COMMANDS[door])
    assert (ran.code, ran.out, ran.err) == (1, "", "The herd is on hold (moving house): release it first.\n")


@pytest.mark.parametrize("door", COMMANDS)
def test_a_pause_is_said_by_every_command_that_starts_work(door: str, generation: Generation) -> None:
    pause()
    ran = herder(*COMMANDS[door])
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("pi1 is paused")
    assert not Job.objects.exists()


def test_a_refusal_is_a_document_where_one_is_asked_for(generation: Generation) -> None:
    pause()
    ran = herder(*COMMANDS["run"], "--json")
    (answer,) = ran.document["jobs"]
    assert (ran.code, ran.err, answer["exit_code"], answer["job"]) == (1, "", 1, None)
    assert "paused" in answer["message"]


def test_one_paused_host_does_not_keep_the_others(generation: Generation) -> None:
    pause()
    make_host("pi2")
    ran = herder("run_job", "host_facts", "--all-hosts")
    assert (ran.code, Job.objects.get().where) == (1, "pi2")
    assert "host_facts on pi2) is requested" in ran.out


def test_a_pause_that_is_over_keeps_nothing_back(generation: Generation) -> None:
    pause(paused_until=timezone.now() - timedelta(seconds=1))
    assert herder(*COMMANDS["run"]).code == 0


def test_a_running_job_may_be_cancelled_while_everything_is_held(generation: Generation) -> None:
    job = make_job("host_facts", generation.source.host)
    on_hold()
    pause()
    assert herder("cancel_job", str(job.pk)).code == 0


def test_a_hold_says_who_and_why_and_ends_at_any_door(generation: Generation) -> None:
    on_hold()
    page = people.runner().get(reverse("jobs")).content.decode()
    assert "moving house" in page
    assert "ann" in page
    herder("release")
    assert herder(*COMMANDS["run"]).code == 0


def test_a_second_hold_replaces_the_first(db: None) -> None:
    herder("hold", "--reason", "first")
    herder("hold", "--reason", "x" * 300)
    assert EngineSettings.load().hold_reason == "x" * 200


def test_releasing_what_is_not_held_is_no_fault(db: None) -> None:
    ran = herder("release")
    assert (ran.code, ran.out) == (0, "The herd is released: schedules fire again.\n")


# --- removed


@pytest.fixture
def removed(generation: Generation) -> Generation:
    Host.objects.update(removed_at=timezone.now())
    return generation


@pytest.mark.parametrize("name", ["host", "run_on_host", "pause_host", "resume_host"])
def test_a_removed_host_has_no_page(name: str, removed: Generation) -> None:
    browser = people.runner()
    address = reverse(name, args=["pi1"])
    answer = browser.get(address) if name == "host" else browser.post(address, {"kind": "backup"})
    assert answer.status_code == 404


def test_what_was_kept_of_a_removed_host_can_still_be_looked_at(removed: Generation) -> None:
    address = reverse("generation", args=["pi1", removed.pk])
    assert people.reader().get(address).status_code == 200


def test_what_was_kept_of_a_removed_host_goes_to_another_by_page(removed: Generation) -> None:
    other = make_host("pi2")
    post(people.runner(), "restore", ["pi1", removed.pk], host=other.pk, to_path="/srv/back")
    job = Job.objects.get()
    assert (job.host, job.params["from_host"]) == (other, "pi1")


def test_a_removed_host_takes_no_restore_by_page(removed: Generation) -> None:
    page = post(people.runner(), "restore", ["pi1", removed.pk], host=removed.source.host.pk)
    assert "Select a valid choice" in page
    assert not Job.objects.exists()


def test_a_removed_host_is_chosen_by_nobody(removed: Generation) -> None:
    page = post(people.runner(), "run_on_herd", [], kind="backup", hosts=[removed.source.host.pk])
    assert "That host is gone." in page


@pytest.mark.parametrize(
    "words",
    [
        ("run_job", "backup", "--host", "pi1"),
        ("test_host", "pi1"),
        ("pause_host", "pi1"),
        ("pause_host", "pi1", "--resume"),
        ("remove_host", "pi1", "--yes"),
        ("edit_host", "pi1", "--port", "1"),
    ],
)
def test_a_removed_host_is_unknown_to_commands_that_work_on_it(words: tuple[str, ...], removed: Generation) -> None:
    assert refused(*words) == "There is no host called pi1: add one with ./herder add_host."


def test_a_removed_host_is_not_listed_and_what_was_kept_is(removed: Generation) -> None:
    assert herder("hosts", "--json").document == []
    assert [each["sequence"] for each in herder("generations", "pi1", "--json").document] == [1]
    assert herder("keep_generation", "pi1", "/srv/data", "1").code == 0


def test_a_job_of_a_removed_host_is_not_run_again(removed: Generation) -> None:
    job = ended(removed.source.host)
    assert "it was removed or never added" in post(people.runner(), "job_again", [job.pk])
    assert Job.objects.count() == 1


# --- the question before a removal


def removal(monkeypatch: pytest.MonkeyPatch, answer: str) -> Ran:
    types(monkeypatch, answer)
    return herder("remove_host", "pi1")


def test_a_removal_asks_and_says_what_stays(generation: Generation, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = removal(monkeypatch, "YES\n")
    assert ran.err == "Remove pi1 (root@192.0.2.1:22)? Its 1 generation stays. [y/N] "
    assert (ran.code, ran.out) == (0, "pi1 is removed; its 1 generation stays.\n")
    assert not Host.herd.exists()


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "nyes\n"])
def test_no_removal_without_a_yes(answer: str, generation: Generation, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = removal(monkeypatch, answer)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith("Nothing was changed.\n")
    assert Host.herd.exists()


def test_a_jump_host_is_not_removed_from_under_others(generation: Generation) -> None:
    make_host("inner", jump=generation.source.host)
    ran = herder("remove_host", "pi1", "--yes")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "pi1 is the jump host of inner: edit those first.\n"
