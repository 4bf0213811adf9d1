"""A restore that deletes takes nothing that was in no backup, and says what it takes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts.families.restore import LISTED, Written
from hosts.models import BackupRoot, Generation, Source
from hosts.root_admin import add_root
from hosts.rsync.output import FileLine
from hosts.store.layout import INFO
from jobs.models import Failure, Status
from tests.hosts.rsync.conftest import needs_root

from .conftest import said
from .test_restore import restore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Pi


def change(pi: Pi, **fields: object) -> None:
    Source.objects.filter(pk=pi.source.pk).update(**fields)


def make(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("in no backup")


def turn_a_saved_folder_into_the_root(pi: Pi) -> None:
    """The generation knows `backups` as an ordinary folder; since then the backup root lies there."""
    make(pi.data / "backups/ordinary")
    pi.run("backup")
    shutil.rmtree(pi.data / "backups")
    Path(pi.root.path).rename(pi.data / "backups")
    BackupRoot.objects.filter(pk=pi.root.pk).update(path=str(pi.data / "backups"))


def test_what_the_source_excludes_stays(pi: Pi) -> None:
    change(pi, excludes=["/cache/", "*.tmp", "- old [1]", "+ *.keep", "/sub/sp ace"])
    left_out = [pi.data / name for name in ("cache/a", "sub/a.tmp", "old 1", "sub/sp ace")]
    make(*left_out)
    pi.run("backup")
    make(pi.data / "newer")
    assert restore(pi, delete=True).error == ""
    assert not (pi.data / "newer").exists()
    assert all(path.exists() for path in left_out)


def test_what_it_excluded_when_the_generation_was_made_stays(pi: Pi) -> None:
    change(pi, excludes=["*.tmp"])
    make(pi.data / "sub/a.tmp")
    pi.run("backup")
    change(pi, excludes=[])
    restore(pi, delete=True)
    assert (pi.data / "sub/a.tmp").exists()


def test_what_is_excluded_since_comes_back(pi: Pi) -> None:
    make(pi.data / "sub/a.tmp")
    pi.run("backup")
    change(pi, excludes=["*.tmp"])
    (pi.data / "sub/a.tmp").unlink()
    assert restore(pi, delete=True).status == Status.SUCCEEDED
    assert (pi.data / "sub/a.tmp").exists()


@pytest.mark.parametrize("pattern", ["/cac\\he/", "cac\\he", "/ca*/", "sub/cac\\he"])
def test_a_folder_that_is_excluded_since_keeps_what_came_into_it_since(pi: Pi, pattern: str) -> None:
    cache = pi.data / ("sub/cac\\he" if pattern.startswith("sub") else "cac\\he")
    make(cache / "old")
    pi.run("backup")
    change(pi, excludes=[pattern])
    make(cache / "new", cache / "deep/new")
    assert (job := restore(pi, delete=True)).result["deleted"] == 0, job.error
    assert (cache / "deep/new").exists()


def test_with_a_record_that_is_damaged_nobody_knows_what_it_left_out(pi: Pi) -> None:
    pi.keep()
    (pi.good()[0].path / INFO).write_text("no record")
    make(pi.data / "newer")
    job = restore(pi, delete=True)
    assert (job.failure, "left out cannot be read" in job.error) == (Failure.REFUSED, True)
    assert restore(pi).status == Status.SUCCEEDED
    assert (pi.data / "newer").exists()


@pytest.fixture
def mounts(pi: Pi) -> Iterator[list[Path]]:
    """Two disks below the source, one of them in a folder that no backup has."""
    places = [pi.data / "disk", pi.data / "since" / "disk"]
    places[0].mkdir()
    change(pi, one_file_system=True)
    pi.run("backup")
    places[1].mkdir(parents=True)
    for place in places:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
        make(place / "deep/precious", place / "precious")
    yield places
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)


@needs_root
@pytest.mark.parametrize("still", [True, False], ids=["says so", "said so then"])
def test_a_disk_that_is_mounted_below_the_source_is_not_emptied(pi: Pi, mounts: list[Path], still: bool) -> None:
    change(pi, one_file_system=still)
    make(pi.data / "newer")
    assert restore(pi, delete=True).error == ""
    assert not (pi.data / "newer").exists()
    assert all((place / name).exists() for place in mounts for name in ("precious", "deep/precious"))


def test_a_generation_that_lacks_unreadable_names_is_not_restored_with_deletion(pi: Pi) -> None:
    Generation.objects.filter(pk=pi.keep().pk).update(rsync_code=23)
    make(pi.data / "newer")
    job = restore(pi, delete=True)
    why = f"Generation 1 of {pi.data} lacks names that could not be read, and deleting would remove them on the host"
    assert (job.failure, job.error) == (Failure.REFUSED, f"{why}: restore it without deleting.")
    assert restore(pi).status == Status.SUCCEEDED
    assert (pi.data / "newer").exists()


def test_the_backups_themselves_are_not_deleted(pi: Pi) -> None:
    change(pi, path=str(pi.data.parent))
    pi.keep()
    job = pi.run("restore", source=str(pi.data.parent), delete=True, dry_run=True)
    assert (job.error, job.result["deleted"] > 0) == ("", True)
    assert not [name for name in job.result["names"] if "root/" in name]


def test_a_root_where_the_generation_has_an_ordinary_folder_is_not_emptied(pi: Pi) -> None:
    turn_a_saved_folder_into_the_root(pi)
    pi.root.refresh_from_db()
    assert restore(pi, delete=True).error == ""
    assert pi.good()[0].path.is_dir()


@pytest.mark.parametrize("place", ["", "sub/deep"])
@pytest.mark.parametrize("delete", [True, False])
def test_a_root_where_the_generation_has_an_ordinary_folder_is_not_written_to(
    pi: Pi, tmp_path: Path, place: str, delete: bool
) -> None:
    make(pi.data / place / "backups/ordinary", pi.data / place / "beside")
    pi.run("backup")
    goal = tmp_path / "goal"
    (goal / place).mkdir(parents=True)
    root = goal / place / "backups"
    Path(pi.root.path).rename(root)
    BackupRoot.objects.filter(pk=pi.root.pk).update(path=str(root))
    job = restore(pi, delete=delete, to_path=str(goal))
    assert (job.error, (goal / place / "beside").exists(), (root / "ordinary").exists()) == ("", True, False)
    assert f"The backup root lies in {goal} ({root.relative_to(goal)}) and was left alone." in said(job)


def test_one_folder_that_holds_a_root_comes_back_beside_it(pi: Pi) -> None:
    make(pi.data / "sub/backups/ordinary")
    pi.run("backup")
    shutil.rmtree(pi.data / "sub")
    (pi.data / "sub").mkdir()
    Path(pi.root.path).rename(pi.data / "sub/backups")
    BackupRoot.objects.filter(pk=pi.root.pk).update(path=str(pi.data / "sub/backups"))
    assert restore(pi, path="sub").error == ""
    assert (pi.data / "sub/file 3").exists()
    assert not (pi.data / "sub/backups/ordinary").exists()


def test_a_target_that_is_still_to_be_made_is_known_to_lie_in_the_root_by_a_link(pi: Pi) -> None:
    pi.keep()
    (pi.data.parent / "link").symlink_to(pi.root.path)
    assert "belongs to a backup root" in restore(pi, to_path=f"{pi.data.parent}/link/new/deep").error


def test_another_root_below_the_target_is_not_emptied(pi: Pi) -> None:
    pi.keep()
    second = pi.data / "second"
    second.mkdir()
    add_root(second)
    make(second / "pi2/generation")
    assert restore(pi, delete=True).error == ""
    assert (second / "pi2/generation").exists()


@pytest.mark.parametrize("place", [".", "pi1", "pi1/deep"])
@pytest.mark.parametrize("delete", [True, False])
def test_a_restore_over_the_backups_is_refused(pi: Pi, place: str, delete: bool) -> None:
    kept = pi.keep()
    goal = os.path.normpath(f"{pi.root.path}/{place}")
    job = restore(pi, delete=delete, to_path=goal)
    words = f"{goal} belongs to a backup root: restore to another place."
    assert (job.failure, job.error, kept.path.is_dir()) == (Failure.REFUSED, words, True)


def test_one_path_that_leads_into_the_backups_is_refused(pi: Pi) -> None:
    turn_a_saved_folder_into_the_root(pi)
    assert "belongs to a backup root" in restore(pi, path="backups/ordinary").error


def test_deletions_are_counted_and_come_first(pi: Pi) -> None:
    pi.keep()
    make(pi.data / "newer", pi.data / "sub/newer")
    (pi.data / "-dash").unlink()
    dry = restore(pi, delete=True, dry_run=True)
    assert dry.summary.endswith(f"would be written to pi1:{pi.data}, 2 names would be deleted.")
    assert (pi.data / "newer").exists()
    assert "*deleting sub/newer" in said(dry)
    job = restore(pi, delete=True)
    assert job.summary.endswith(f"written to pi1:{pi.data}, 2 names were deleted.")
    assert (job.result["deleted"], os.path.lexists(pi.data / "newer")) == (2, False)


def test_deletions_are_listed_before_all_else_also_when_there_is_too_much() -> None:
    written = Written()
    for number in range(LISTED):
        written.add(FileLine(b"f%d" % number, ">f+++++++++", 1, b"", ""))
    written.add(FileLine(b"old", "*deleting", 0, b"", ""))
    assert (written.deleted, written.files, len(written.names)) == (1, LISTED, LISTED)
    assert written.names[:2] == ["*deleting old", ">f+++++++++ f0"]


def test_without_deletion_nothing_is_said_of_it(pi: Pi) -> None:
    pi.keep()
    make(pi.data / "newer")
    assert "deleted" not in restore(pi).summary
