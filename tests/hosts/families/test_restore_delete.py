"""A restore that deletes takes nothing that was in no backup, and says what it takes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from hosts.families.restore import LISTED, Written
from hosts.models import Generation, Source
from hosts.rsync.output import FileLine
from hosts.store.layout import INFO
from jobs.models import Failure, Status
from tests.hosts.rsync.conftest import needs_root

from .conftest import said
from .test_restore import restore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Pi


def change(pi: Pi, **fields: object) -> None:
    Source.objects.filter(pk=pi.source.pk).update(**fields)


def make(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("in no backup")


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


def test_what_is_excluded_since_comes_back_and_a_record_that_is_damaged_is_no_hindrance(pi: Pi) -> None:
    make(pi.data / "sub/a.tmp")
    pi.run("backup")
    change(pi, excludes=["*.tmp"])
    (pi.data / "sub/a.tmp").unlink()
    (pi.good()[0].path / INFO).write_text("no record")
    assert restore(pi, delete=True).status == Status.SUCCEEDED
    assert (pi.data / "sub/a.tmp").exists()


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


def test_a_restore_with_deletion_over_the_backups_is_refused(pi: Pi) -> None:
    kept = pi.keep()
    job = restore(pi, delete=True, to_path=pi.root.path)
    words = f"{pi.root.path} is the backup root itself: restore without deleting."
    assert (job.failure, job.error, kept.path.is_dir()) == (Failure.REFUSED, words, True)


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
