"""The kind as the engine sees it: every door, its schedule, the hold, and what its job says."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from jobs import owed, registry, schedules, services, tasks
from jobs.models import EngineSettings, Job, Lane, Status
from jobs.registry import JobFailed
from piherder.archive import overview, shelf
from piherder.archive.make import Made
from piherder.archive.names import ArchiveName
from piherder.archive.shelf import Archive
from piherder.families.herder_backup import HerderBackup, key_warning, require_there, summary
from piherder.management import state
from piherder.management.commands.first_start import make_schedules
from tests import people
from tests.commands import herder as run
from tests.factories import make_host, make_job
from tests.hosts.families.conftest import ASKER, carry_out, said
from tests.piherder.archive.test_manifest import sample

if TYPE_CHECKING:
    from tests.piherder.archive.conftest import Herder

PLACE = Path("/archives")


def test_it_is_found_without_being_named_anywhere() -> None:
    family = registry.get("herder_backup")
    assert isinstance(family, HerderBackup)
    assert (family.needs_host, family.mutex, family.exclusive) == (False, False, True)
    assert family.lanes_of(None, {}) == ("herder_backup",)
    assert family.task in tasks.TASKS


def test_it_runs_beside_other_housekeeping(herder: Herder) -> None:
    make_job("retention")
    job = herder.request()
    (lane,) = Lane.objects.filter(job=job)
    assert (lane.name, lane.host) == ("herder_backup", None)


def test_its_lane_is_free_again_afterwards(herder: Herder) -> None:
    herder.back_up()
    assert not Lane.objects.exists()


def test_the_general_command_starts_it_too(herder: Herder) -> None:
    assert run("run_job", "herder_backup").code == 0
    assert run("run_job", "herder_backup", "--param", "new_folder=yes").code == 3
    refused = run("run_job", "herder_backup", "--param", "password=x")
    assert (refused.code, "no parameter password: known are new_folder" in refused.err) == (2, True)


def test_a_person_can_run_it_again(herder: Herder) -> None:
    job = herder.back_up()
    again = carry_out(services.run_again(job, asker=ASKER).job)
    assert (again.pk > job.pk, again.status) == (True, Status.SUCCEEDED)


def due() -> PeriodicTask:
    """The daily schedule, due since an hour."""
    make_schedules()
    PeriodicTask.objects.exclude(name="Herder backup").update(enabled=False)
    row = PeriodicTask.objects.filter(name="Herder backup")
    then = timezone.now() - timedelta(days=1, hours=1)
    row.update(last_run_at=then, date_changed=then)
    return row.get()


def test_its_schedule_starts_it(herder: Herder) -> None:
    due()
    (fire,) = schedules.run_due()
    (job,) = fire.jobs.all()
    assert (job.kind, job.requested_name) == ("herder_backup", "schedule Herder backup")
    assert carry_out(job).status == Status.SUCCEEDED


def test_a_run_that_fell_into_a_hold_is_made_up_for_once(herder: Herder) -> None:
    due()
    services.hold("holiday", asker=ASKER)
    (fire,) = schedules.run_due()
    assert (fire.started, owed.make_up()) == (0, [])
    services.release()
    assert [job.kind for job in owed.make_up()] == ["herder_backup"]
    assert owed.make_up() == []


def test_the_page_says_why_nothing_starts(herder: Herder) -> None:
    EngineSettings.objects.create(pk=1, held_at=timezone.now(), held_by="someone", hold_reason="holiday")
    answer = people.runner().post(reverse("back_up_herder"), follow=True)
    assert answer.redirect_chain == [(reverse("herder_backups"), 302)]
    assert "The herd is on hold (holiday)" in answer.content.decode()


def test_the_page_leads_to_the_job_that_is_there(herder: Herder) -> None:
    job = herder.request()
    answer = people.runner().post(reverse("back_up_herder"), follow=True)
    assert answer.redirect_chain[-1][0] == reverse("job", args=[job.pk])
    assert "was already doing this" in answer.content.decode()


def test_the_page_is_quiet_when_nothing_is_under_way(herder: Herder) -> None:
    text = people.reader().get(reverse("herder_backups")).content.decode()
    assert "There is no archive yet" in text
    assert "every 4s" not in text
    assert "http-equiv" not in text


def test_the_navigation_shows_where_one_is(herder: Herder) -> None:
    text = people.reader().get(reverse("herder_backups")).content.decode()
    assert f'<a href="{reverse("herder_backups")}" aria-current="page">' in text


def made(*removed: str, encrypted: bool = False) -> Made:
    """An archive that was made."""
    name = ArchiveName(7, timezone.now(), encrypted)
    found = sample(master_key="inside" if encrypted else "not inside")
    return Made(Archive(PLACE / str(name), name, 2_500_000), found, list(removed))


def test_the_evidence_of_a_plain_archive_ends_with_a_warning(herder: Herder) -> None:
    text = summary(made(), PLACE).text
    assert "-000007.tar, 2.5 MB, not encrypted. The master key is not inside:" in text
    assert text.endswith("the stored logins cannot be read after a loss.")
    assert len(text) < 500


def test_the_evidence_of_an_encrypted_archive_is_short(herder: Herder) -> None:
    text = summary(made("a", "b", encrypted=True), PLACE).text
    assert text.endswith("-000007.tar.gpg, 2.5 MB, encrypted, with the master key. 2 older ones removed.")


def test_the_warning_names_the_variable_that_holds_the_key(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_MASTER_KEYS", "k" * 40)
    assert "without a copy of PIHERDER_MASTER_KEYS kept elsewhere" in key_warning()


def test_the_log_tells_the_steps_and_what_went(herder: Herder) -> None:
    herder.settings.PIHERDER_ARCHIVES_KEEP = 1
    first = herder.back_up()
    log = said(herder.back_up())
    steps = [line.partition(" == ")[2] for line in log.splitlines() if " == " in line]
    assert steps == ["dump the database", "pack", "read it back", "publish"]
    assert f"Removed {first.result['archive']}." in log


def test_a_folder_that_was_never_used_may_be_new(herder: Herder) -> None:
    require_there(herder.folder)
    herder.back_up()
    require_there(herder.folder)
    require_there(herder.data / "another")


def test_a_folder_whose_marker_is_gone_is_not_trusted(herder: Herder) -> None:
    herder.back_up()
    (herder.folder / shelf.MARKER).unlink()
    with pytest.raises(JobFailed, match=r"mount its disk, or begin anew there with .* --new-folder"):
        require_there(herder.folder)


def test_a_folder_that_hangs_is_given_up_on(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> overview.Overview:
        raise OSError("Stale file handle")

    monkeypatch.setattr(state, "overview", away)
    found = state.State()
    state.look_at_archives(found)
    assert found.problems == ["The archives of the herder cannot be looked at: Stale file handle."]
    assert found.archives == {}


def test_an_archive_that_comes_late_clears_the_problem(herder: Herder) -> None:
    make_host()
    job = herder.request()
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(hours=1))
    assert len(overview.overview().problems) == 2
    carry_out(job)
    assert overview.overview().problems == []
