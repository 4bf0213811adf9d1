"""What a restore leaves as it is: the folders above, the folder it writes into, a disk that can only be read."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from hosts.models import BackupRoot
from hosts.store.layout import TREE
from hosts.store.root import create_marker
from jobs.models import Status
from tests.hosts.rsync.conftest import NOBODY, needs_root

from .conftest import contents
from .test_backup_ways import open_folder, ordinary
from .test_restore import restore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Pi

__all__ = ["open_folder", "ordinary"]
pytestmark = needs_root


def rights(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_mode & 0o7777, found.st_uid


@pytest.fixture
def deep(pi: Pi) -> Pi:
    """A generation with folders of other owners and modes above a file."""
    (pi.data / "a/b[1]/c").mkdir(parents=True)
    for number, name in enumerate(("a", "a/b[1]", "a/b[1]/c")):
        (pi.data / name / "beside").write_text("beside")
        os.chown(pi.data / name, 1000 + number, 0)
        (pi.data / name).chmod(0o700 + number)
    (pi.data / "a/b[1]/c/file").write_text("saved")
    pi.keep()
    return pi


def test_folders_above_that_are_there_keep_owner_and_mode(deep: Pi) -> None:
    for name in ("a", "a/b[1]"):
        os.chown(deep.data / name, NOBODY, 0)
        (deep.data / name).chmod(0o755)
    (deep.data / "a/b[1]/c/file").unlink()
    assert restore(deep, path="a/b[1]/c/file").error == ""
    assert (deep.data / "a/b[1]/c/file").read_text() == "saved"
    assert [rights(deep.data / name) for name in ("a", "a/b[1]")] == [(0o755, NOBODY)] * 2


def test_a_link_that_stands_for_a_folder_above_stays(deep: Pi) -> None:
    (deep.data / "a").rename(deep.data / "moved")
    (deep.data / "a").symlink_to("moved")
    (deep.data / "moved/b[1]/c/file").unlink()
    assert restore(deep, path="a/b[1]/c/file").error == ""
    assert os.readlink(deep.data / "a") == "moved"
    assert (deep.data / "moved/b[1]/c/file").read_text() == "saved"


@pytest.mark.parametrize("there", ["", "a", "a/b[1]"])
@pytest.mark.parametrize("path", ["a/b[1]/c/file", "a/b[1]/c"])
def test_folders_above_that_are_missing_are_made_as_they_were(deep: Pi, tmp_path: Path, there: str, path: str) -> None:
    goal = tmp_path / "goal"
    (goal / there).mkdir(parents=True, mode=0o711)
    os.chown(goal / there, NOBODY, 0)
    assert restore(deep, path=path, to_path=str(goal)).error == ""
    assert (goal / "a/b[1]/c/file").read_text() == "saved"
    made = [name for name in ("a", "a/b[1]", "a/b[1]/c") if len(name) > len(there)]
    assert [rights(goal / name) for name in made] == [rights(deep.data / name) for name in made]
    assert rights(goal / there)[1] == NOBODY
    beside = {f"{name}/beside" for name in made} if path.endswith("/c") else set()
    assert {str(found.relative_to(goal)) for found in goal.rglob("beside")} == beside & {"a/b[1]/c/beside"}


def test_a_source_that_goes_into_a_folder_that_is_there_leaves_the_folder_alone(pi: Pi, tmp_path: Path) -> None:
    kept, goal = pi.keep(), tmp_path / "goal"
    goal.mkdir()
    goal.chmod(0o1777)
    os.chown(goal, NOBODY, 0)
    job = restore(pi, to_path=str(goal))
    assert (job.error, rights(goal)) == ("", (0o1777, NOBODY))
    assert contents(goal) == contents(kept.path / TREE)


def test_a_folder_that_is_made_for_a_source_is_as_the_source_was(pi: Pi, tmp_path: Path) -> None:
    pi.data.chmod(0o700)
    os.chown(pi.data, NOBODY, 0)
    pi.keep()
    assert restore(pi, to_path=str(tmp_path / "goal")).error == ""
    assert rights(tmp_path / "goal") == (0o700, NOBODY)


def test_a_source_that_was_empty_leaves_a_folder_that_is_there_alone(pi: Pi, tmp_path: Path) -> None:
    subprocess.run(["find", str(pi.data), "-mindepth", "1", "-delete"], check=True)
    pi.keep()
    (tmp_path / "goal").mkdir()
    (tmp_path / "goal").chmod(0o711)
    job = restore(pi, to_path=str(tmp_path / "goal"))
    assert (job.error, rights(tmp_path / "goal")) == ("", (0o711, 0))


def test_a_login_that_may_not_write_is_told_so(ordinary: Pi, open_folder: Path) -> None:
    ordinary.run("backup")
    (open_folder / "open").unlink()
    job = ordinary.run("restore", source=str(open_folder), path="open")
    assert "may not write 1 of the names on pi1: " in job.error
    assert job.error.endswith("; allow sudo for rsync there, or choose another --to.")


@pytest.fixture
def read_only(pi: Pi, full_disk: Path) -> Iterator[Path]:
    """A backup disk that was remounted read-only after a backup."""
    BackupRoot.objects.filter(pk=pi.root.pk).update(path=str(full_disk))
    create_marker(full_disk, settings.PIHERDER_INSTALL_ID, pi.root.marker.hex)
    assert pi.run("backup").error == ""
    subprocess.run(["mount", "-o", "remount,ro", str(full_disk)], check=True)
    yield full_disk
    subprocess.run(["mount", "-o", "remount,rw", str(full_disk)], check=True)


def test_a_disk_that_can_only_be_read_gives_everything_back(pi: Pi, read_only: Path) -> None:
    (pi.data / "sub/file 3").unlink()
    assert restore(pi).status == Status.SUCCEEDED
    assert (pi.data / "sub/file 3").exists()


def test_what_has_to_write_says_that_it_cannot(pi: Pi, read_only: Path) -> None:
    job = pi.run("backup_verify")
    assert job.error == f"The backup folder {read_only}/pi1 cannot be locked: Read-only file system."
