"""The claims of the demonstration without any file: made-up snapshots, spans and process tables, true and untrue."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hosts.store.entry import Entry
from piherder.demo import watch
from piherder.demo.proof import (
    Disproved,
    Seen,
    Snapshot,
    most_at_once,
    require_copy,
    require_hard_linked,
    require_one_rsync,
    require_same,
    shorthand,
)
from piherder.demo.watch import Count, Watch

if TYPE_CHECKING:
    from pathlib import Path

_inodes = itertools.count(1)


def seen(name: bytes, **changes: object) -> Seen:
    """A file of five bytes, another one each time."""
    entry = Entry(name, "file", 5, 1_700_000_000_000_000_000, 0o644, 0, 0)
    made = Seen(entry, next(_inodes), "digest", ())
    own = {key: value for key, value in changes.items() if key in {"inode", "digest", "xattrs"}}
    rest = {key: value for key, value in changes.items() if key not in own}
    return replace(made, entry=entry._replace(**rest), **own)  # type: ignore[arg-type]  # passed on by name


def tree(*names: bytes, **changes: object) -> Snapshot:
    return {name: seen(name, **changes) for name in names}


# --- copies ------------------------------------------------------------------------------------------------------


def test_a_copy_has_inodes_of_its_own() -> None:
    require_copy(tree(b"a", b"b"), tree(b"a", b"b"), "copy")


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"kind": "dir"}, "kind"),
        ({"digest": "other"}, "content"),
        ({"size": 6}, "length"),
        ({"mode": 0o600}, "mode"),
        ({"uid": 7}, "owner"),
        ({"gid": 7}, "owner"),
        ({"mtime_ns": 1_700_000_001_000_000_000}, "time"),
        ({"target": b"x"}, "link target"),
        ({"xattrs": (("user.a", b"1"),)}, "extended attributes"),
        ({"xattrs": (("system.posix_acl_access", b"1"),)}, "extended attributes"),
    ],
)
def test_each_part_of_a_copy_can_be_wrong(changes: dict[str, object], part: str) -> None:
    with pytest.raises(Disproved, match=rf"^copy: a has another {part}$"):
        require_copy(tree(b"a"), tree(b"a", **changes), "copy")


def test_a_time_within_the_same_second_is_the_same() -> None:
    require_copy(tree(b"a"), tree(b"a", mtime_ns=1_700_000_000_999_999_999), "copy")


def test_a_missing_and_an_additional_name_are_named() -> None:  # case C13
    with pytest.raises(Disproved, match="copy: caf%E9 is missing"):
        require_copy(tree(b"caf\xe9"), {}, "copy")
    with pytest.raises(Disproved, match="copy: x%0Ay should not be there"):
        require_copy({}, tree(b"x\ny"), "copy")


def test_with_fake_super_only_the_user_s_attributes_are_compared() -> None:
    listed = tree(b"a", xattrs=(("system.posix_acl_access", b"1"),))
    require_copy(listed, tree(b"a"), "copy", fake_super=True)
    with pytest.raises(Disproved):
        require_copy(tree(b"a", xattrs=(("user.a", b"1"),)), tree(b"a"), "copy", fake_super=True)


def test_names_of_one_file_must_be_of_one_file_in_the_copy() -> None:  # case C12
    linked = tree(b"a", b"b", inode=4711)
    with pytest.raises(Disproved, match="hard links"):
        require_copy(linked, tree(b"a", b"b"), "copy")
    with pytest.raises(Disproved, match="hard links"):
        require_copy(tree(b"a", b"b"), linked, "copy")


def test_the_same_tree_keeps_its_inodes() -> None:
    before = tree(b"a")
    require_same(before, dict(before), "generation")
    with pytest.raises(Disproved, match="a is not as it was"):
        require_same(before, tree(b"a"), "generation")


# --- generations -------------------------------------------------------------------------------------------------


def test_what_did_not_change_is_shared_and_what_did_is_not() -> None:
    shared = seen(b"same")
    old, new = {b"same": shared, **tree(b"edited")}, {b"same": shared, **tree(b"edited", b"new")}
    found = require_hard_linked(old, new, {b"edited"}, "second")
    assert (found.same, found.fresh) == (1, 2)


def test_a_file_that_takes_space_twice_is_told() -> None:
    with pytest.raises(Disproved, match="takes space a second time"):
        require_hard_linked(tree(b"a"), tree(b"a", b"new"), set(), "second")


def test_a_changed_file_that_is_shared_is_told() -> None:
    shared = seen(b"a")
    with pytest.raises(Disproved, match="changed, but both generations share one file"):
        require_hard_linked({b"a": shared}, {b"a": shared}, {b"a"}, "second")


def test_two_empty_generations_prove_nothing() -> None:
    with pytest.raises(Disproved, match="nothing to compare"):
        require_hard_linked({}, {}, set(), "second")


@pytest.mark.parametrize("changes", [{"digest": "x"}, {"mode": 0o600}, {"xattrs": (("user.a", b""),)}, {"uid": 5}])
def test_the_shorthand_of_a_tree_tells_every_change_but_inodes(changes: dict[str, object]) -> None:
    assert shorthand(tree(b"a", b"b")) == shorthand(tree(b"b", b"a"))
    assert shorthand(tree(b"a")) != shorthand(tree(b"a", **changes))


# --- counting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_most_at_once_is_what_counting_at_every_moment_finds(seed: int) -> None:
    chance = random.Random(seed)
    spans = [(start := chance.randint(0, 20), start + chance.randint(1, 10)) for _ in range(12)]
    slow = max(sum(start <= moment < end for start, end in spans) for moment in range(40))
    assert most_at_once(spans) == slow


def test_a_run_that_begins_as_another_ends_is_not_beside_it() -> None:
    assert most_at_once([(0, 1), (1, 2)]) == 1
    assert most_at_once([]) == 0


def test_a_count_remembers_its_peak() -> None:
    count = Count()
    for number in (0, 2, 1, 0):
        count.note(number)
    assert (count.now, count.peak, count.busy) == (0, 2, 2)


@pytest.mark.parametrize(("peaks", "words"), [({"a": 1, "b": 2}, "2 rsyncs ran on b"), ({"a": 0}, "ever seen on a")])
def test_two_rsyncs_and_none_are_both_told(peaks: dict[str, int], words: str) -> None:
    with pytest.raises(Disproved, match=words):
        require_one_rsync(peaks, "while it ran")


def test_a_watch_of_no_host_counts_nothing() -> None:
    empty = Watch({})
    empty.look()
    empty.stop()
    assert (empty.peaks, empty.looks) == ({}, 1)


@pytest.mark.parametrize("content", [b"", b"\0\0", b"rsync\0", b"rsync\0--server-x\0", b"/rsync/x\0--server\0"])
def test_a_process_with_an_odd_command_line_is_no_rsync(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cmdline").write_bytes(content)
    (tmp_path / "7/stat").write_text("7 (rsync) S 1 0\n")
    assert watch.servers(tmp_path) == {}


def test_a_process_that_ends_while_it_is_looked_at_is_no_rsync(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cmdline").write_bytes(b"rsync\0--server\0")
    assert watch.servers(tmp_path) == {}
