"""What is shown of the herder's own backup: the page, the command, `status`, and what needs attention."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from jobs.models import Door, EngineSettings, Job, Status
from piherder.archive import overview, shelf
from piherder.archive.names import ArchiveName
from piherder.management import state
from piherder.management.commands.first_start import make_schedules
from tests import people
from tests.commands import herder as run
from tests.factories import change, make_host, make_job

if TYPE_CHECKING:
    from datetime import datetime

    from tests.piherder.archive.conftest import Herder

NOW = timezone.now()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """`status` watches hearts for an instant only: none of these tests is about them."""
    monkeypatch.setattr(state, "watching_seconds", lambda: 0.1)


def keep(herder: Herder, taken_at: datetime, sequence: int = 1, *, encrypted: bool = False) -> str:
    """An archive of that moment."""
    herder.folder.mkdir(exist_ok=True)
    name = str(ArchiveName(sequence, taken_at, encrypted))
    (herder.folder / name).write_bytes(b"x" * 1500)
    return name


def problems() -> list[str]:
    return overview.overview(NOW).problems


def test_nothing_is_missed_while_there_is_nothing_to_lose(herder: Herder) -> None:
    assert problems() == []


def test_hosts_without_an_archive_are_a_problem(herder: Herder) -> None:
    make_host()
    assert problems() == ["There is no archive of the herder itself: ./herder herder_backup makes one."]
    keep(herder, NOW)
    assert problems() == []


@pytest.mark.parametrize(("hours", "expected"), [(47, 0), (49, 1)])
def test_an_archive_older_than_two_days_is_a_problem(herder: Herder, hours: int, expected: int) -> None:
    keep(herder, NOW - timedelta(hours=hours))
    assert len(problems()) == expected


@pytest.mark.parametrize(("minutes", "expected"), [(29, 0), (31, 1)])
def test_a_request_that_nobody_begins_is_a_problem(herder: Herder, minutes: int, expected: int) -> None:
    job = change(make_job(overview.KIND), created_at=NOW - timedelta(minutes=minutes))
    found = problems()
    assert len(found) == expected
    assert all(
        sentence.startswith(f"Job {job.pk}, the backup of the herder, has been pending for") for sentence in found
    )
    change(job, status=Status.CANCELLED, finished_at=NOW)
    assert problems() == []


def test_while_the_herd_is_on_hold_nobody_expects_an_archive(herder: Herder) -> None:
    make_host()
    change(make_job(overview.KIND), created_at=NOW - timedelta(hours=1))
    EngineSettings.objects.create(pk=1, held_at=NOW, held_by="someone")
    assert problems() == []


def test_a_passphrase_that_cannot_be_used_is_a_problem(herder: Herder) -> None:
    herder.encrypt().chmod(0o640)
    assert problems()[0].startswith("Others can read the passphrase file")


def test_the_notes_say_what_a_loss_would_mean(herder: Herder) -> None:
    shelf.enter(herder.folder, "me")
    key, disk = overview.overview(NOW).notes
    assert f"keep a copy of {herder.data}/master.key elsewhere" in key
    assert disk.startswith("The archives lie on the disk of the data")


def test_an_encrypted_archive_needs_no_copy_of_the_key(herder: Herder) -> None:
    herder.encrypt()
    keep(herder, NOW, encrypted=True)
    assert not any("master key" in note for note in overview.overview(NOW).notes)
    keep(herder, NOW, 2)
    assert "master key is not inside" in overview.overview(NOW).notes[0]


def test_the_page_lists_archives_with_age_size_and_what_is_inside(herder: Herder) -> None:
    keep(herder, NOW - timedelta(days=1))
    name = keep(herder, NOW, 2, encrypted=True)
    text = people.reader().get(reverse("herder_backups")).content.decode()
    assert text.index(name) < text.index("-000001.tar")
    for words in ("1.5 kB", ">inside<", ">not inside<", ">yes<", ">no<", "1 d ago"):
        assert words in text, words
    assert "Back up now" not in text


def test_the_page_shows_problems_and_the_job_under_way(herder: Herder) -> None:
    make_host()
    job = make_job(overview.KIND)
    answer = people.runner().get(reverse("herder_backups"))
    assert "There is no archive of the herder itself" in answer.content.decode()
    assert f"Job {job.pk}:" in answer.content.decode()
    part = people.signed_in("x").get(reverse("herder_backups"), headers={"HX-Request": "true"}).content.decode()
    assert part.startswith('<div id="archives" hx-get=')


def test_the_button_asks_for_an_archive_and_leads_to_the_job(herder: Herder) -> None:
    answer = people.runner().post(reverse("back_up_herder"))
    job = Job.objects.get(kind=overview.KIND)
    assert (answer["Location"], job.door) == (f"/jobs/{job.pk}/", Door.PAGE)


def test_only_who_may_run_jobs_gets_one_and_only_by_the_form(herder: Herder) -> None:
    assert people.reader().post(reverse("back_up_herder")).status_code == 403
    assert people.runner().get(reverse("back_up_herder")).status_code == 405
    assert not Job.objects.exists()


def test_the_command_asks_for_an_archive(herder: Herder) -> None:
    ran = run("herder_backup", "--json")
    assert (ran.code, ran.document["jobs"][0]["job"]["kind"]) == (0, "herder_backup")
    assert run("herder_backup").code == 3


def test_the_command_refuses_what_cannot_end_well(herder: Herder) -> None:
    herder.encrypt().chmod(0o644)
    ran = run("herder_backup")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "chmod 600" in ran.err
    assert not Job.objects.exists()


def test_the_command_can_begin_anew(herder: Herder) -> None:
    run("herder_backup", "--new-folder")
    assert Job.objects.get().params == {"new_folder": True}


def test_a_daily_schedule_is_made_once_and_never_overwritten(db: None) -> None:
    assert make_schedules()["Herder backup"]
    PeriodicTask.objects.filter(name="Herder backup").update(enabled=False)
    assert not make_schedules()["Herder backup"]
    row = PeriodicTask.objects.get(name="Herder backup")
    assert (row.kwargs, row.crontab.hour, row.enabled) == ('{"kind": "herder_backup"}', "2", False)


def test_status_shows_the_newest_and_its_age(herder: Herder) -> None:
    name = keep(herder, timezone.now() - timedelta(hours=50))
    found = state.look(watch=0)
    assert (found.archives["newest"], found.archives["count"]) == (name, 1)
    assert any(sentence.startswith("The newest archive of the herder itself is 2 d") for sentence in found.problems)
    text = run("status").out
    assert f"{name}  made 2 d ago, without the master key, 1 kept" in text


def test_status_says_that_there_is_none(herder: Herder) -> None:
    assert run("status", "--json").document["herder_backup"]["newest"] is None
    assert "no archive of its own" in run("status").out
