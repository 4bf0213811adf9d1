"""The folder of the archives."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from piherder.archive import shelf
from piherder.archive.errors import ArchiveError
from piherder.archive.names import ArchiveName

if TYPE_CHECKING:
    from pathlib import Path

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)


def put(folder: Path, *sequences: int) -> list[str]:
    """Archives with these numbers; the clock ran backwards meanwhile."""
    names = [str(ArchiveName(number, MOMENT.replace(year=2030 - number))) for number in sequences]
    for name in names:
        (folder / name).write_bytes(b"content")
    return names


def test_a_new_folder_is_private_and_ours(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    shelf.enter(folder, "me")
    shelf.enter(folder, "me")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (shelf.owner(folder), shelf.has_marker(folder)) == ("me", True)


def test_the_archives_of_another_installation_are_left_alone(tmp_path: Path) -> None:
    shelf.enter(tmp_path, "other")
    with pytest.raises(ArchiveError, match="holds the archives of another installation"):
        shelf.enter(tmp_path, "me")
    assert shelf.owner(tmp_path) == "other"


def test_a_damaged_marker_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / shelf.MARKER).write_text("[]")
    with pytest.raises(ArchiveError, match="another installation"):
        shelf.enter(tmp_path, "me")


def test_a_folder_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match=r"cannot be used \(Not a directory\): look at its disk"):
        shelf.enter(tmp_path / "file" / "below", "me")


def test_archives_are_listed_newest_first_by_their_number(tmp_path: Path) -> None:
    put(tmp_path, 1, 3, 2)
    (tmp_path / "notes.txt").write_text("mine")
    os.symlink("/etc/passwd", tmp_path / str(ArchiveName(9, MOMENT)))
    assert [each.name.sequence for each in shelf.archives(tmp_path)] == [3, 2, 1]
    assert shelf.archives(tmp_path / "nowhere") == []


def test_only_the_newest_stay_and_nothing_that_is_not_ours_goes(tmp_path: Path) -> None:
    first, *_ = put(tmp_path, 1, 2, 3)
    others = ["notes.txt", "before-restore-20300101T000000Z.sqlite3", f"{first}.old"]
    for name in others:
        (tmp_path / name).write_text("mine")
    assert shelf.prune(tmp_path, 2) == [first]
    assert [each.name.sequence for each in shelf.archives(tmp_path)] == [3, 2]
    assert all((tmp_path / name).exists() for name in others)


def test_the_newest_always_stays(tmp_path: Path) -> None:
    put(tmp_path, 1, 2)
    shelf.prune(tmp_path, 0)
    assert [each.name.sequence for each in shelf.archives(tmp_path)] == [2]


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    with shelf.new_file(tmp_path, "x") as handle:
        handle.write(b"whole")
        assert not (tmp_path / "x").exists()
    path = shelf.publish(tmp_path, "x")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"whole", 0o600)


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), shelf.new_file(tmp_path, "x"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_a_partial_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.symlink(victim, tmp_path / f"{shelf.PARTIAL}x")
    with shelf.new_file(tmp_path, "x") as handle:
        handle.write(b"whole")
    assert victim.read_text() == "precious"


def test_leftovers_of_killed_runs_go(tmp_path: Path) -> None:
    (tmp_path / f"{shelf.PARTIAL}a").write_text("")
    (tmp_path / f"{shelf.PARTIAL}b-folder").mkdir()
    (tmp_path / f"{shelf.PARTIAL}b-folder" / "inside").write_text("")
    (tmp_path / "kept").write_text("")
    assert shelf.remove_leftovers(tmp_path, "b-") == 1
    assert shelf.remove_leftovers(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
