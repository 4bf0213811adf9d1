"""Retention on a real backup root; it speaks to no host."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.utils import timezone

from hosts.families import retention
from hosts.models import BackupRoot, Generation, GenerationStatus, Source
from hosts.store.layout import list_generations
from hosts.store.lock import host_folder
from hosts.store.root import create_marker
from jobs.models import Failure, Status, WaitingOn
from jobs.services import request_job
from tests.factories import change, make_node, picked_up_by, waiting_on
from tests.hosts.store.build import fill_disk

from .conftest import ASKER, Pi, cancel, carry_out, said, shelve

if TYPE_CHECKING:
    from jobs.models import Job

    from .conftest import MakePi


@pytest.fixture
def thin_pi(off_pi: Pi) -> Pi:
    """A host that is down, keeps its last two, and has next to nothing to keep."""
    shutil.rmtree(off_pi.data)
    off_pi.data.mkdir()
    (off_pi.data / "one").write_text("one")
    off_pi.edit(keep_last=2, keep_daily=0, keep_weekly=0, keep_monthly=0)
    return off_pi


def thin(**params: Any) -> Job:
    return carry_out(request_job("retention", None, params, asker=ASKER).job)


def fill(pi: Pi, count: int, **fields: Any) -> list[Generation]:
    """So many generations, a day apart, the newest of today."""
    now = timezone.now()
    return [pi.keep(started_at=now - timedelta(days=age), **fields) for age in reversed(range(count))]


def kept(pi: Pi) -> list[int]:
    """Sequences that are both good in the database and there on disk."""
    there = {found.sequence for found in list_generations(pi.folder)}
    return [row.sequence for row in pi.good() if row.sequence in there]


def test_the_rule_says_what_stays(thin_pi: Pi) -> None:
    fill(thin_pi, 3)
    job = thin()
    assert (job.status, job.summary) == (Status.SUCCEEDED, "1 generation removed, 2 kept.")
    assert kept(thin_pi) == [2, 3]
    assert (len(list_generations(thin_pi.folder)), Generation.objects.count()) == (2, 2)


def test_unfinished_ones_are_neither_counted_nor_touched(thin_pi: Pi) -> None:  # case D01
    fill(thin_pi, 2)
    rows = [
        Generation.objects.create(source=thin_pi.source, root=thin_pi.root, sequence=number, folder=f"00000{number}-x")
        for number in (3, 4, 5)
    ]
    assert thin().summary == "0 generations removed, 2 kept."
    assert (kept(thin_pi), Generation.objects.filter(pk__in=[row.pk for row in rows]).count()) == ([1, 2], 3)


def test_what_is_kept_for_ever_stays(thin_pi: Pi) -> None:
    first = fill(thin_pi, 4)[0]
    Generation.objects.filter(pk=first.pk).update(kept_at=timezone.now())
    thin()
    assert kept(thin_pi) == [1, 3, 4]


def test_each_source_keeps_its_newest(thin_pi: Pi) -> None:
    thin_pi.edit(keep_last=1)
    fill(thin_pi, 2)
    other = Source.objects.create(host=thin_pi.host, path="/other", folder="other", enabled=False)
    alone = shelve(other, thin_pi.root, thin_pi.data, started_at=timezone.now() - timedelta(days=30))
    thin()
    assert (kept(thin_pi), other.generations.get()) == ([2], alone)


def test_too_many_at_once_are_a_question_that_names_its_answer(thin_pi: Pi) -> None:
    fill(thin_pi, 6)
    job = thin()
    assert (job.status, job.failure, len(kept(thin_pi))) == (Status.FAILED, Failure.QUESTION, 6)
    assert "4 of 6 generations of this host would be removed" in job.error
    assert job.error.endswith("To go on: ./herder run_job retention --param host=pi1 --param confirm=too_many")
    assert thin(host="pi1", confirm="too_many").summary == "4 generations removed, 2 kept."
    assert kept(thin_pi) == [5, 6]


def test_a_clock_that_nobody_set_is_a_question(thin_pi: Pi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "clock_synchronised", lambda: False)
    fill(thin_pi, 3)
    job = thin()
    assert (job.failure, kept(thin_pi)) == (Failure.QUESTION, [1, 2, 3])
    assert job.error.endswith(" --param confirm=clock_unsynchronised")
    assert thin(confirm="clock_unsynchronised").status == Status.SUCCEEDED


def test_a_clock_that_went_back_is_a_question(thin_pi: Pi) -> None:
    fill(thin_pi, 2)
    thin_pi.keep(started_at=timezone.now() + timedelta(hours=3))
    job = thin()
    assert (job.failure, job.result["codes"], kept(thin_pi)) == (Failure.QUESTION, ["clock_behind"], [1, 2, 3])


def test_a_question_about_one_host_keeps_no_other_from_its_turn(thin_pi: Pi, make_pi: MakePi) -> None:
    fill(thin_pi, 3)
    other = make_pi("a-first", start=False)
    other.edit(keep_last=1, keep_daily=0, keep_weekly=0, keep_monthly=0)
    shutil.rmtree(other.data / "sub")
    fill(other, 4)
    job = thin()
    assert (job.failure, len(kept(other)), kept(thin_pi)) == (Failure.QUESTION, 4, [2, 3])


def test_a_dry_run_lists_and_removes_nothing(thin_pi: Pi) -> None:
    rows = fill(thin_pi, 3)
    job = thin(dry_run=True)
    assert job.summary == "1 generation would go, 2 kept."
    assert job.result["removed"] == [f"pi1:{thin_pi.data} {rows[0].folder}"]
    assert kept(thin_pi) == [1, 2, 3]


def test_a_host_with_a_backup_under_way_is_passed_over(thin_pi: Pi) -> None:
    fill(thin_pi, 3)
    backup = picked_up_by(make_node("w2@pi"), thin_pi.request("backup"))
    assert thin().summary == "0 generations removed, 2 kept, 1 host passed over."
    assert kept(thin_pi) == [1, 2, 3]
    change(backup, attempt=None)
    cancel(backup)
    thin()
    assert kept(thin_pi) == [2, 3]


def test_a_backup_that_only_waits_for_its_host_is_no_hindrance(thin_pi: Pi) -> None:
    fill(thin_pi, 3)
    waiting_on(WaitingOn.HOST, thin_pi.request("backup"))
    assert thin().summary == "1 generation removed, 2 kept."
    assert kept(thin_pi) == [2, 3]


def test_two_reasons_of_one_host_are_one_host(thin_pi: Pi, tmp_path: Path) -> None:
    for number, row in enumerate(fill(thin_pi, 4)[:2]):
        away = BackupRoot.objects.create(path=str(tmp_path / f"away{number}"))
        Generation.objects.filter(pk=row.pk).update(root=away)
    job = thin(confirm="too_many")
    assert (len(job.result["passed_over"]), job.summary[-20:]) == (2, " 1 host passed over.")


def test_a_folder_in_use_is_passed_over_in_words(thin_pi: Pi) -> None:
    fill(thin_pi, 3)
    with host_folder(Path(thin_pi.root.path), "pi1"):
        job = thin()
    assert job.result["passed_over"] == ["pi1: Another copy works in pi1's backup folder on this server."]
    assert kept(thin_pi) == [1, 2, 3]


def test_an_interrupted_removal_is_finished_by_the_next_run(thin_pi: Pi) -> None:
    rows = fill(thin_pi, 4)
    Generation.objects.filter(pk__in=[rows[0].pk, rows[1].pk]).update(status=GenerationStatus.DELETING)
    bin_ = Path(thin_pi.root.path) / ".trash" / "left"
    bin_.parent.mkdir(exist_ok=True)
    rows[0].path.rename(bin_)
    job = thin()
    assert (job.status, kept(thin_pi), Generation.objects.count()) == (Status.SUCCEEDED, [3, 4], 2)
    assert (bin_.exists(), rows[1].path.exists()) == (False, False)
    assert "leftovers of an interrupted run" in said(job)


def test_one_kept_for_ever_while_it_was_being_removed_goes_all_the_same(thin_pi: Pi) -> None:
    row = fill(thin_pi, 3)[0]
    Generation.objects.filter(pk=row.pk).update(status=GenerationStatus.DELETING, kept_at=timezone.now())
    thin()
    assert not Generation.objects.filter(pk=row.pk).exists()


def test_it_runs_when_the_disk_is_full(thin_pi: Pi, full_disk: Path) -> None:  # case D03
    use_root(thin_pi, full_disk)
    fill(thin_pi, 3)
    fill_disk(full_disk)
    assert thin().summary == "1 generation removed, 2 kept."
    assert kept(thin_pi) == [2, 3]


def use_root(pi: Pi, folder: Path) -> None:
    BackupRoot.objects.filter(pk=pi.root.pk).update(path=str(folder))
    pi.root.refresh_from_db()
    create_marker(folder, settings.PIHERDER_INSTALL_ID, pi.root.marker.hex)


def test_a_disk_that_is_away_is_passed_over_and_another_is_thinned(thin_pi: Pi, tmp_path: Path) -> None:
    lost = fill(thin_pi, 4)[1]
    away = BackupRoot.objects.create(path=str(tmp_path / "away"))
    Generation.objects.filter(pk=lost.pk).update(root=away)
    job = thin(confirm="too_many")
    assert (job.status, kept(thin_pi)) == (Status.SUCCEEDED, [2, 3, 4])
    assert "not mounted" in job.result["passed_over"][0]
    assert Generation.objects.get(pk=lost.pk).status == GenerationStatus.GOOD


def test_an_unknown_host_is_refused_in_words(off_pi: Pi) -> None:
    assert thin(host="nobody").error == "There is no host nobody."


def test_the_clock_is_asked_once_and_may_be_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings, "PIHERDER_CLOCK_TRUSTED", False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert retention.clock_synchronised() is None
    answers = tmp_path / "timedatectl"
    for word, meaning in (("yes", True), ("no", False), ("", None)):
        answers.write_text(f"#!/bin/sh\necho {word}\n")
        answers.chmod(0o755)
        assert retention.clock_synchronised() is meaning
