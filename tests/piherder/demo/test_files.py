"""The files of a throw-away host: what they are, and that a change changes what it says and nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from piherder.demo import files
from piherder.demo.proof import Snapshot, shorthand, snapshot
from tests.piherder.demo.conftest import COUNT

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> set[bytes]:
    return set(snapshot(folder))


def test_the_unusual_is_there(source: Path) -> None:
    found = snapshot(source)
    assert {b"odd/" + name for name in files.ODD} <= set(found)
    assert {found[b"odd/" + name].entry.kind for name in (b"broken", b"outside", b"to a file")} == {"symlink"}
    assert found[b"odd/empty folder"].entry.mode == 0o2750
    assert os.stat(os.fsencode(source) + b"/names/00").st_nlink == 3
    assert files.count(source) == COUNT + 52


def test_the_treasure_has_all_that_a_careless_copy_loses(source: Path) -> None:
    seen = snapshot(source)[files.TREASURE]
    assert (seen.entry.mode, seen.entry.mtime_ns) == (0o640, files.OLD)
    assert [name for name, _ in seen.xattrs] == ["system.posix_acl_access", "user.origin"]


def test_one_seed_makes_one_set_of_files(source: Path, tmp_path: Path) -> None:
    def contents(folder: Path) -> list[tuple[bytes, str]]:
        return sorted((name, seen.digest) for name, seen in snapshot(folder).items())

    same, other = tmp_path / "same", tmp_path / "other"
    for folder, seed in ((same, 1), (other, 2)):
        folder.mkdir()
        files.fill(folder, seed, COUNT)
    assert contents(same) == contents(source) != contents(other)


@pytest.fixture
def changed(source: Path) -> tuple[Snapshot, Snapshot, files.Changes]:
    before = snapshot(source)
    changes = files.change(source, 7)
    return before, snapshot(source), changes


def test_names_come_and_go_as_told(changed: tuple[Snapshot, Snapshot, files.Changes]) -> None:
    before, after, changes = changed
    assert set(after) - set(before) == set(changes.added)
    assert set(before) - set(after) == set(changes.removed)
    assert str(changes) == "45 changed, 15 new, 15 gone"


def test_files_change_as_told_and_no_others(changed: tuple[Snapshot, Snapshot, files.Changes]) -> None:
    before, after, changes = changed
    both = {name for name in set(before) & set(after) if before[name].entry.kind != "dir"}
    assert {name for name in both if before[name] != after[name]} == set(changes.changed)


def test_some_edits_keep_the_length(changed: tuple[Snapshot, Snapshot, files.Changes]) -> None:
    before, after, changes = changed
    edited = [name for name in changes.changed if before[name].digest != after[name].digest]
    same_length = [name for name in edited if before[name].entry.size == after[name].entry.size]
    assert 0 < len(same_length) < len(edited) == 40


def test_the_big_file_has_its_size(tmp_path: Path) -> None:
    files.add_big(tmp_path, 2 << 20)
    assert os.path.getsize(os.fsencode(tmp_path) + b"/" + files.BIG) == 2 << 20
    assert shorthand(snapshot(tmp_path)) == shorthand(snapshot(tmp_path))
