"""Every claim of the demonstration, true and untrue: a proof that cannot fail proves nothing."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from piherder.demo import files, proof
from piherder.demo.proof import Disproved, Loss, Snapshot, snapshot
from tests.piherder.demo.conftest import rsync

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAIN = b"documents/00/0000.dat"
LINKED = b"names/05 again"
CHANGED = b"photos/00/0001.dat"


def at(tree: Path, name: bytes) -> bytes:
    return os.fsencode(tree) + b"/" + name


def quietly(path: bytes, work: Callable[[bytes], object]) -> None:
    """Do `work` and give the file its time back, as silent damage does."""
    before = os.stat(path).st_mtime_ns
    work(path)
    os.utime(path, ns=(before, before))


def flip(path: bytes) -> None:
    with open(path, "r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))


def unlink_from_group(path: bytes) -> None:
    shutil.copy2(path, path + b"~")
    os.replace(path + b"~", path)


def replace_link(path: bytes) -> None:
    os.unlink(path)
    os.symlink(b"elsewhere", path)


def test_a_real_copy_is_a_copy(source: Path, tmp_path: Path) -> None:
    proof.require_copy(snapshot(source), snapshot(rsync(source, tmp_path / "copy")), "copy")


DAMAGE: dict[str, tuple[bytes, Callable[[bytes], object], str]] = {
    "a flipped bit": (PLAIN, lambda path: quietly(path, flip), "another content"),
    "a mode": (PLAIN, lambda path: os.chmod(path, 0o666), "another mode"),
    "a time": (PLAIN, lambda path: os.utime(path, ns=(5, files.OLD - proof.SECOND)), "another time"),
    "a missing file": (PLAIN, os.unlink, "is missing"),
    "a file too many": (PLAIN, lambda path: shutil.copy(path, path + b".2"), "should not be there"),
    "a lost hard link": (LINKED, unlink_from_group, "the hard links"),
    "a link's target": (b"odd/broken", replace_link, "another"),
    "an xattr": (files.TREASURE, lambda path: os.setxattr(path, b"user.origin", b"else"), "extended attributes"),
    "an access list": (
        files.TREASURE,
        lambda path: quietly(path, lambda each: os.removexattr(each, b"system.posix_acl_access")),
        "extended attributes",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_copy_is_none(source: Path, tmp_path: Path, damage: str) -> None:
    name, work, words = DAMAGE[damage]
    copy = rsync(source, tmp_path / "copy")
    folder = os.stat(os.path.dirname(at(copy, name))).st_mtime_ns
    work(at(copy, name))
    os.utime(os.path.dirname(at(copy, name)), ns=(folder, folder))
    with pytest.raises(Disproved, match=words):
        proof.require_copy(snapshot(source), snapshot(copy), "copy")


def test_another_owner_is_seen(source: Path) -> None:
    found = snapshot(source)
    seen = found[PLAIN]
    other = {**found, PLAIN: replace(seen, entry=seen.entry._replace(uid=4242))}
    with pytest.raises(Disproved, match="another owner"):
        proof.require_copy(found, other, "copy")


def test_fake_super_keeps_access_lists_elsewhere_but_not_the_users_attributes(source: Path) -> None:
    found = snapshot(source)
    seen = found[files.TREASURE]
    without = {**found, files.TREASURE: replace(seen, xattrs=(("user.origin", dict(seen.xattrs)["user.origin"]),))}
    proof.require_copy(found, without, "copy", fake_super=True)
    nothing = {**found, files.TREASURE: replace(seen, xattrs=())}
    with pytest.raises(Disproved, match="extended attributes"):
        proof.require_copy(found, nothing, "copy", fake_super=True)


def test_a_tree_is_the_same_as_itself_also_after_another_name_was_linked_to_it(source: Path, tmp_path: Path) -> None:
    before = snapshot(source)
    os.link(at(source, PLAIN), tmp_path / "another name")
    proof.require_same(before, snapshot(source), "tree")
    assert proof.shorthand(before) == proof.shorthand(snapshot(source))


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "a time"])
def test_a_tree_that_was_touched_is_not_the_same(source: Path, damage: str) -> None:
    before = snapshot(source)
    name, work, _ = DAMAGE[damage]
    work(at(source, name))
    with pytest.raises(Disproved, match="tree: "):
        proof.require_same(before, snapshot(source), "tree")


def two_generations(source: Path, base: Path) -> tuple[Snapshot, Snapshot, set[bytes]]:
    old = rsync(source, base / "1")
    changes = files.change(source, 2)
    new = rsync(source, base / "2", f"--link-dest={old}")
    return snapshot(old), snapshot(new), set(changes.changed)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    files.fill(folder, 1, 200)
    return folder


def test_hard_linked_generations_share_what_did_not_change(many: Path, tmp_path: Path) -> None:
    old, new, changed = two_generations(many, tmp_path)
    found = proof.require_hard_linked(old, new, changed, "pair")
    assert found.fresh == len(changed) + 15
    assert found.same > 100


def test_a_full_copy_is_no_hard_linked_generation(many: Path, tmp_path: Path) -> None:
    old, new = snapshot(rsync(many, tmp_path / "1")), snapshot(rsync(many, tmp_path / "2"))
    with pytest.raises(Disproved, match="takes space a second time"):
        proof.require_hard_linked(old, new, set(), "pair")


def test_a_change_written_through_a_shared_inode_is_seen(many: Path, tmp_path: Path) -> None:
    old, new, changed = two_generations(many, tmp_path)
    name = sorted(changed)[0]
    new[name] = replace(new[name], inode=old[name].inode)
    with pytest.raises(Disproved, match="both generations share one file"):
        proof.require_hard_linked(old, new, changed, "pair")


def test_two_generations_without_a_change_prove_nothing(source: Path, tmp_path: Path) -> None:
    old = rsync(source, tmp_path / "1")
    new = rsync(source, tmp_path / "2", f"--link-dest={old}")
    with pytest.raises(Disproved, match="nothing to compare"):
        proof.require_hard_linked(snapshot(old), snapshot(new), set(), "pair")


def test_holes(source: Path, tmp_path: Path) -> None:
    image = at(source, files.SPARSE)
    proof.require_sparse(image, "image")
    full = os.fsencode(tmp_path / "full")
    with open(image, "rb") as reader, open(full, "wb") as writer:
        writer.write(reader.read())
    with pytest.raises(Disproved, match="lost its holes"):
        proof.require_sparse(full, "image")


def test_a_restored_file_may_have_another_inode_and_nothing_else(source: Path) -> None:
    seen = snapshot(source)[files.TREASURE]
    proof.require_restored(seen, replace(seen, inode=1), "file")
    for other in (
        replace(seen, digest="0"),
        replace(seen, xattrs=seen.xattrs[:1]),
        replace(seen, entry=seen.entry._replace(mode=0o600)),
        replace(seen, entry=seen.entry._replace(mtime_ns=0)),
        replace(seen, entry=seen.entry._replace(gid=77)),
    ):
        with pytest.raises(Disproved, match="file has another"):
            proof.require_restored(seen, other, "file")


TOLD = Loss("failed", "worker_lost", "The worker celery@pi was lost.", "celery@pi", 3.0)


def test_a_loss_that_was_told() -> None:
    proof.require_told(TOLD, 30)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (replace(TOLD, status="succeeded", failure=""), "ended as succeeded"),
        (replace(TOLD, failure="error"), "ended as failed"),
        (replace(TOLD, words="Something went wrong."), "does not name its worker"),
        (replace(TOLD, node=""), "does not name its worker"),
        (replace(TOLD, seconds=31.0), "after 31 s"),
    ],
)
def test_a_loss_that_was_not_told(loss: Loss, words: str) -> None:
    with pytest.raises(Disproved, match=words):
        proof.require_told(loss, 30)


def test_one_rsync_per_host() -> None:
    proof.require_one_rsync({"attic": 1, "porch": 1}, "today")
    with pytest.raises(Disproved, match="2 rsyncs ran on porch at once today"):
        proof.require_one_rsync({"attic": 1, "porch": 2}, "today")


def test_a_host_without_any_rsync_proves_nothing() -> None:
    with pytest.raises(Disproved, match="no rsync was ever seen on attic"):
        proof.require_one_rsync({"attic": 0, "porch": 1}, "today")


@pytest.mark.parametrize(
    ("spans", "most"),
    [([], 0), ([(1, 2)], 1), ([(1, 2), (2, 3)], 1), ([(1, 3), (2, 4)], 2), ([(1, 9), (2, 3), (4, 5)], 2)],
)
def test_most_at_once(spans: list[tuple[float, float]], most: int) -> None:
    assert proof.most_at_once(spans) == most
