"""Removal of generations: complete, resumable, and of nothing else."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from hosts.store import layout
from hosts.store.layout import LayoutError
from hosts.store.paths import PathRefused
from hosts.store.trash import empty_trash
from tests.hosts.store.build import fill, fill_disk, finish, publish, snapshot, source_dir, write, write_partial

if TYPE_CHECKING:
    from pathlib import Path


def trash_names(root: Path) -> list[str]:
    return os.listdir(root / ".trash")


def odd_generation(root: Path) -> Path:
    partial = write_partial(root, "odd", {})
    fill(partial.tree)
    return finish(partial, 1)


def test_odd_names_links_pipes_and_read_only_folders_go(root: Path) -> None:  # case C13
    path = odd_generation(root)
    assert layout.trash(path) > 15
    assert not path.exists()
    assert trash_names(root) == []


def test_links_are_removed_and_not_followed(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "outside/file")
    path = publish(root, 1, {"a": b"1"})
    (path / "tree/out").symlink_to(tmp_path / "outside")
    layout.trash(path)
    assert (tmp_path / "outside/file").exists()


def test_a_hard_linked_neighbour_stays_as_it_is(root: Path) -> None:
    first = publish(root, 1, {"same": b"1"})
    partial = write_partial(root, "two", {})
    os.link(first / "tree/same", partial.tree / "same")
    second = finish(partial, 2, first)
    before = snapshot(second)
    layout.trash(first)
    assert snapshot(second) == before


def test_a_tree_deeper_than_a_path_may_be_long_goes(root: Path) -> None:
    path = publish(root, 1, {"a": b"1"})
    here = os.open(path / "tree", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert layout.trash(path) > 1500
    assert trash_names(root) == []


def test_what_goes_is_counted(root: Path) -> None:
    path = publish(root, 1, {"a": b"1", "d/b": b"1"})
    assert layout.trash(path) == 1 + 2 + 1 + 1 + 1 + 1


def test_a_stopped_removal_is_gone_on_with(root: Path) -> None:
    path = odd_generation(root)
    ticks = iter([None, None, None])
    with pytest.raises(StopIteration):
        layout.trash(path, tick=lambda: next(ticks))
    assert not path.exists()
    assert len(trash_names(root)) == 1
    assert empty_trash(root) > 5
    assert trash_names(root) == []


def test_emptying_an_empty_or_missing_trash_is_nothing(root: Path) -> None:
    assert empty_trash(root) == 0
    (root / ".trash").rmdir()
    assert empty_trash(root) == 0


def test_what_another_process_removes_is_left_to_it(root: Path) -> None:
    (root / ".trash/theirs/tree").mkdir(parents=True)
    descriptor = os.open(root / ".trash/theirs", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert empty_trash(root) == 0
    os.close(descriptor)
    assert empty_trash(root) == 2


def test_a_loose_file_in_the_trash_goes(root: Path) -> None:
    write(root / ".trash/file")
    empty_trash(root)
    assert trash_names(root) == []


@pytest.mark.parametrize("name", ["", "pi-1", "pi-1/srv-data", ".trash", "pi-1/srv-data/latest"])
def test_only_generations_can_be_removed(root: Path, name: str) -> None:  # case C16
    publish(root, 1, {"a": b"1"})
    with pytest.raises(LayoutError, match="not a generation"):
        layout.trash(root / name)


def test_a_generation_outside_the_root_is_not_removed(root: Path, tmp_path: Path) -> None:  # case C16
    name = publish(root, 1, {"a": b"1"}).name
    (tmp_path / "elsewhere" / name).mkdir(parents=True)
    (source_dir(root) / "way-out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathRefused, match="not inside"):
        layout.trash(source_dir(root) / "way-out" / name, root)
    assert (tmp_path / "elsewhere" / name).exists()


def test_a_partial_can_be_removed(root: Path) -> None:
    layout.trash(write_partial(root, "gone", {"a": b"1"}).path)
    assert layout.list_generations(source_dir(root)) == []
    assert os.listdir(source_dir(root)) == []


def test_on_a_full_disk_generations_can_still_be_removed(small_disk: Path) -> None:  # case D03
    path = publish(small_disk, 1, {"a": bytes(200_000), "d/e/f": b"1"})
    fill_disk(small_disk)
    layout.trash(path)
    assert os.statvfs(small_disk).f_bavail * 4096 >= 200_000
