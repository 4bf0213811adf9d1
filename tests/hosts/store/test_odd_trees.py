"""Trees as real hosts have them: devices, sockets, deep folders, times of every century; through the whole store."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from hosts.store import layout, manifest
from hosts.store.entry import Entry, walk
from hosts.store.paths import encode_name
from hosts.store.trash import empty_trash
from hosts.store.verify import restore_sample, verify
from tests.hosts.store.build import finish, info, publish, source_dir, write, write_partial

if TYPE_CHECKING:
    from pathlib import Path

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes devices or changes owners")
DEEP = 200


@pytest.fixture
def partial(root: Path) -> layout.Partial:
    """An empty tree that a run writes."""
    return write_partial(root, "one", {})


def entries(generation: Path) -> dict[bytes, Entry]:
    return {entry.name: entry for entry in manifest.read_manifest(generation / layout.MANIFEST)}


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the kernel's limit for a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


# --- kinds -------------------------------------------------------------------------------------------------------


@needs_root
def test_devices_sockets_and_pipes_are_others(partial: layout.Partial) -> None:
    os.mknod(partial.tree / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(partial.tree / "disk", 0o660 | stat.S_IFBLK, os.makedev(7, 99))
    os.mkfifo(partial.tree / "pipe")
    make_socket(partial.tree / "socket")
    generation = finish(partial, 1)
    assert {entries(generation)[name].kind for name in (b"null", b"disk", b"pipe", b"socket")} == {"other"}
    assert verify(generation, 1).ok


@needs_root
def test_no_device_and_no_pipe_is_ever_opened(partial: layout.Partial, tmp_path: Path) -> None:
    os.mknod(partial.tree / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # reading it would not end
    os.mkfifo(partial.tree / "pipe")  # opening it would wait for a writer
    generation = finish(partial, 1)
    assert verify(generation, 1).checked == 0
    assert restore_sample(generation, tmp_path, 5).files == 0


@needs_root
def test_a_generation_with_devices_goes(partial: layout.Partial, root: Path) -> None:
    os.mknod(partial.tree / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    make_socket(partial.tree / "socket")
    layout.trash(finish(partial, 1))
    assert os.listdir(root / ".trash") == []


def test_a_pipe_that_became_a_file_is_changed(partial: layout.Partial) -> None:
    os.mkfifo(partial.tree / "pipe")
    generation = finish(partial, 1)
    (generation / "tree/pipe").unlink()
    write(generation / "tree/pipe", b"")
    assert verify(generation, 1).changed.names == ["pipe"]


def test_a_file_that_became_a_pipe_does_not_hang_the_look(partial: layout.Partial) -> None:
    write(partial.tree / "file", b"")
    generation = finish(partial, 1)
    (generation / "tree/file").unlink()
    os.mkfifo(generation / "tree/file")
    assert verify(generation, 1).changed.names == ["file"]


@pytest.mark.parametrize("target", [b"/etc/passwd", b"..", b"caf\xe9", b"a\nb", b"x" * 4000, b"loop"])
def test_a_link_keeps_its_target_whatever_it_says(partial: layout.Partial, target: bytes) -> None:  # case C13
    os.symlink(target, os.fsencode(partial.tree) + b"/loop")
    generation = finish(partial, 1)
    assert entries(generation)[b"loop"].target == target
    assert verify(generation, 1).ok


# --- metadata ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o644, 0o755, 0o4755, 0o2755, 0o7777])
def test_every_mode_comes_back(partial: layout.Partial, mode: int) -> None:
    write(partial.tree / "file", b"x", mode)
    assert entries(finish(partial, 1))[b"file"].mode == mode


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777, 0o2775])
def test_every_mode_of_a_folder_comes_back(partial: layout.Partial, mode: int) -> None:
    (partial.tree / "folder").mkdir()
    (partial.tree / "folder").chmod(mode)
    assert entries(finish(partial, 1))[b"folder"].mode == mode


@pytest.mark.parametrize(
    "moment", [0, 1, 999_999_999, 1_700_000_000_123_456_789, -1, -86_400 * 10**9, 4_102_444_800 * 10**9]
)
def test_a_time_of_any_century_comes_back_to_the_nanosecond(partial: layout.Partial, moment: int) -> None:
    write(partial.tree / "file")
    os.utime(partial.tree / "file", ns=(0, moment))
    kept = (partial.tree / "file").stat().st_mtime_ns
    assert entries(finish(partial, 1))[b"file"].mtime_ns == kept == moment


@needs_root
@pytest.mark.parametrize(("uid", "gid"), [(0, 0), (1000, 100), (65_534, 65_534), (2**31, 2**32 - 2)])
def test_every_owner_comes_back(partial: layout.Partial, uid: int, gid: int) -> None:
    write(partial.tree / "file")
    os.chown(partial.tree / "file", uid, gid)
    found = entries(finish(partial, 1))[b"file"]
    assert (found.uid, found.gid) == (uid, gid)


def test_a_hole_counts_with_its_length_and_takes_no_space(partial: layout.Partial) -> None:  # case C10
    with (partial.tree / "image").open("wb") as out:
        out.truncate(1 << 30)
    record, _totals = layout.seal(partial, info(1), {}, None)
    assert record.bytes == 1 << 30
    assert (partial.tree / "image").stat().st_blocks == 0


def test_three_names_of_one_file_are_told_as_one(partial: layout.Partial) -> None:  # case C12
    write(partial.tree / "a")
    for other in ("b", "c"):
        os.link(partial.tree / "a", partial.tree / other)
    found = entries(finish(partial, 1))
    assert len({found[name].link for name in (b"a", b"b", b"c")}) == 1
    assert found[b"a"].link is not None


# --- shapes ------------------------------------------------------------------------------------------------------


def test_a_deep_tree_is_walked_in_order(partial: layout.Partial) -> None:
    folder = partial.tree
    for _ in range(DEEP):
        folder = folder / "d"
    write(folder / "last", b"x")
    names = [entry.name for entry in walk(partial.tree)]
    assert len(names) == DEEP + 2
    assert names[-1] == b"d/" * DEEP + b"last"


def test_a_deep_tree_is_published_verified_and_removed(partial: layout.Partial, root: Path) -> None:
    folder = partial.tree
    for _ in range(DEEP):
        folder = folder / "d"
    write(folder / "last", b"x")
    generation = finish(partial, 1)
    assert verify(generation, 1).checked == 1
    assert layout.trash(generation) == DEEP + 5


def test_a_name_as_long_as_linux_allows(partial: layout.Partial) -> None:
    longest = b"\xe9" * 255
    write(os.fsencode(partial.tree) + b"/" + longest, b"x")
    generation = finish(partial, 1)
    assert longest in entries(generation)
    assert verify(generation, 1).cursor == encode_name(longest)


@pytest.mark.parametrize("name", [b"generation.json", b"manifest.jsonl.gz", b"tree", b".partial-x", b".trash", b"%41"])
def test_names_of_ours_inside_the_tree_are_only_names(partial: layout.Partial, name: bytes) -> None:
    write(os.fsencode(partial.tree) + b"/" + name, b"mine")
    generation = finish(partial, 1)
    assert entries(generation)[name].size == 4
    assert verify(generation, 1).ok


def test_a_thousand_files_in_one_folder(partial: layout.Partial) -> None:
    for number in range(1000):
        write(partial.tree / f"{number:04d}", b"x")
    found = list(entries(finish(partial, 1)))
    assert found == sorted(found)
    assert len(found) == 1001


def test_a_tree_may_be_empty(partial: layout.Partial) -> None:  # case C15
    generation = finish(partial, 1)
    assert list(entries(generation)) == [b"."]


# --- leftovers ---------------------------------------------------------------------------------------------------


def test_a_leftover_with_read_only_folders_is_taken_over(partial: layout.Partial, root: Path) -> None:
    write(partial.tree / "shut/file")
    (partial.tree / "shut").chmod(0o500)
    adopted = layout.take_over(source_dir(root), "two")
    assert (adopted.tree / "shut/file").exists()


@pytest.mark.parametrize("age", [-5, 5])
def test_a_leftover_that_is_a_file_or_a_link_stops_no_run(root: Path, tmp_path: Path, age: int) -> None:
    before = write_partial(root, "one", {"a": b"1"}).path
    write(tmp_path / "outside/keep")
    (source_dir(root) / ".partial-link").symlink_to(tmp_path / "outside")
    write(source_dir(root) / ".partial-file")
    when = before.stat().st_mtime + age
    for odd in (".partial-link", ".partial-file"):
        os.utime(source_dir(root) / odd, (when, when), follow_symlinks=False)
    partial = layout.take_over(source_dir(root), "two")
    assert (partial.adopted, os.listdir(source_dir(root))) == ("one", [".partial-two"])
    assert (tmp_path / "outside/keep").exists()


def test_links_out_of_the_trash_are_not_followed(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "outside/keep")
    (root / ".trash/way").symlink_to(tmp_path / "outside")
    empty_trash(root)
    assert os.listdir(root / ".trash") == []
    assert (tmp_path / "outside/keep").exists()


def test_a_generation_can_be_copied_to_another_disk_and_read_there(root: Path, tmp_path: Path) -> None:
    generation = publish(root, 1, {"a": b"1", "d/b": b"2"})
    subprocess.run(["cp", "-a", str(root), str(tmp_path / "other")], check=True)
    (found,) = layout.list_generations(source_dir(tmp_path / "other"))
    assert found.info == layout.GenerationInfo.from_json((generation / layout.INFO).read_bytes())
    assert verify(found.path, 1).ok


def test_a_sequence_goes_on_after_the_disk_was_attached_anew(root: Path) -> None:
    publish(root, 41, {"a": b"1"})
    (source_dir(root) / "000099-nonsense").mkdir()
    (source_dir(root) / "link").symlink_to("000041-x")
    assert layout.next_sequence(source_dir(root)) == 42
