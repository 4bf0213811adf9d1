"""The manifest against real trees and real rsync, and every way it can be damaged."""

from __future__ import annotations

import gzip
import os
import random
import stat
import subprocess
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from hosts.store import manifest
from hosts.store.manifest import FAKE_STAT, Entry, ManifestDamaged, Totals
from hosts.store.paths import PathRefused
from tests.hosts.store.build import ODD_NAMES, fill, md5, sums, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def written(
    tmp_path: Path, tree: Path, checksums: Mapping[bytes, str] | None = None, previous: Path | None = None
) -> Path:
    """The manifest of a tree, under a new name each time."""
    out = tmp_path / f"{len(list(tmp_path.glob('*.gz')))}.gz"
    manifest.write_manifest(tree, checksums or {}, previous, out)
    return out


def entries(path: Path) -> dict[bytes, Entry]:
    return {entry.name: entry for entry in manifest.read_manifest(path)}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    fill(folder)
    return folder


def test_every_path_is_there_once_and_in_order(tmp_path: Path, tree: Path) -> None:
    found = list(manifest.read_manifest(written(tmp_path, tree)))
    walked = {b"."} | {
        os.path.relpath(os.path.join(at, name), os.fsencode(tree))
        for at, ds, fs in os.walk(os.fsencode(tree))
        for name in ds + fs
    }
    assert {entry.name for entry in found} == walked
    assert [entry.key for entry in found] == sorted(entry.key for entry in found)


def test_a_name_with_a_dash_does_not_break_the_order(tmp_path: Path) -> None:
    for name in ("a/x", "a-b", "a.d/y", "ab", "a"):
        (tmp_path / "t" / name).mkdir(parents=True, exist_ok=True)
    names = [entry.name for entry in manifest.walk(tmp_path / "t")]
    assert names == [b".", b"a", b"a/x", b"a-b", b"a.d", b"a.d/y", b"ab"]


def test_odd_names_come_back(tmp_path: Path, tree: Path) -> None:  # case C13
    found = entries(written(tmp_path, tree))
    assert {b"odd/" + name for name in ODD_NAMES} <= set(found)


def test_the_file_is_utf8_lines_that_anyone_can_read(tmp_path: Path, tree: Path) -> None:  # case C13
    lines = gzip.decompress(written(tmp_path, tree).read_bytes()).decode("utf-8").splitlines()
    assert sum("caf%E9.txt" in line for line in lines) == 1
    assert lines[-1] == f'{{"end": {len(lines) - 1}}}'


def test_what_is_known_of_a_file_comes_back(tmp_path: Path, tree: Path) -> None:
    os.utime(tree / "docs/one.txt", ns=(1, 1_700_000_000_123_456_789))
    found = entries(written(tmp_path, tree, {b"docs/one.txt": md5(b"one")}))[b"docs/one.txt"]
    assert (found.kind, found.size, found.mtime_ns, found.mode) == ("file", 3, 1_700_000_000_123_456_789, 0o640)
    assert (found.uid, found.gid, found.checksum) == (os.getuid(), os.getgid(), f"md5:{md5(b'one')}")


def test_links_pipes_and_folders_have_their_kind(tmp_path: Path, tree: Path) -> None:
    found = entries(written(tmp_path, tree))
    assert (found[b"docs/link"].kind, found[b"docs/link"].target) == ("symlink", b"../nowhere")
    assert (found[b"pipe"].kind, found[b"docs"].kind) == ("other", "dir")
    assert found[b"locked"].mode == 0o500


def test_totals_count_what_is_there(tmp_path: Path, tree: Path) -> None:
    totals = manifest.write_manifest(tree, sums(tree), None, tmp_path / "m")
    files = len(ODD_NAMES) + 4
    assert (totals.files, totals.dirs, totals.others, totals.with_checksum) == (files, 5, 2, files)
    assert totals.bytes == (8 << 20) + 3 + 3 + len(b"locked") + sum(map(len, ODD_NAMES))


def test_hard_linked_names_share_a_number_and_a_checksum(tmp_path: Path, tree: Path) -> None:
    found = entries(written(tmp_path, tree, {b"docs/same-as-one.txt": md5(b"one")}))
    one, same = found[b"docs/one.txt"], found[b"docs/same-as-one.txt"]
    assert one.link is not None
    assert (one.link, one.checksum) == (same.link, f"md5:{md5(b'one')}")
    assert found[b"sparse.img"].link is None


def test_a_checksum_of_another_algorithm_keeps_its_name(tmp_path: Path, tree: Path) -> None:
    found = entries(written(tmp_path, tree, {b"sparse.img": "xxh128:abc"}))
    assert found[b"sparse.img"].checksum == "xxh128:abc"


def test_an_unchanged_file_keeps_its_checksum(tmp_path: Path, tree: Path) -> None:
    first = written(tmp_path, tree, sums(tree))
    second = written(tmp_path, tree, {}, first)
    assert entries(second) == entries(first)


@pytest.mark.parametrize("change", ["size", "mtime"])
def test_a_changed_file_does_not_keep_its_checksum(tmp_path: Path, tree: Path, change: str) -> None:
    first = written(tmp_path, tree, sums(tree))
    path, before = tree / "docs/one.txt", (tree / "docs/one.txt").stat()
    path.write_bytes(b"longer" if change == "size" else b"eno")
    os.utime(path, ns=(0, before.st_mtime_ns + (change == "mtime")))
    found = entries(written(tmp_path, tree, {}, first))
    assert found[b"docs/one.txt"].checksum is None
    assert found[b"sparse.img"].checksum is not None


def test_a_file_transferred_anew_has_the_new_checksum(tmp_path: Path, tree: Path) -> None:
    first = written(tmp_path, tree, sums(tree))
    assert (
        entries(written(tmp_path, tree, {b"sparse.img": "f" * 32}, first))[b"sparse.img"].checksum == "md5:" + "f" * 32
    )


def test_carrying_over_is_right_for_random_changes(tmp_path: Path) -> None:
    rng, tree = random.Random(3), tmp_path / "t"
    names = [f"{rng.choice('ab-.')}{rng.choice('xy')}/{n}" for n in range(60)]
    for name in names:
        write(tree / name, b"1")
    first = written(tmp_path, tree, sums(tree))
    gone, new = set(rng.sample(names, 20)), [f"{rng.choice('ab')}z/{n}" for n in range(20)]
    for name in gone:
        (tree / name).unlink()
    for name in new:
        write(tree / name, b"2")
    found = entries(written(tmp_path, tree, {}, first))
    assert {n for n, e in found.items() if e.checksum} == {n.encode() for n in names if n not in gone}


def test_a_damaged_previous_manifest_costs_only_its_checksums(tmp_path: Path, tree: Path) -> None:
    first = written(tmp_path, tree, sums(tree))
    first.write_bytes(first.read_bytes()[:60])
    found = entries(written(tmp_path, tree, {}, first))
    assert found[b"sparse.img"].checksum is None


def test_a_missing_previous_manifest_costs_only_its_checksums(tmp_path: Path, tree: Path) -> None:
    assert entries(written(tmp_path, tree, {}, tmp_path / "gone.gz"))[b"sparse.img"].checksum is None


def test_files_without_a_checksum_are_hashed_here_up_to_a_budget(tmp_path: Path, tree: Path) -> None:
    totals = manifest.write_manifest(tree, {}, None, tmp_path / "m", hash_here_bytes=10)
    found = entries(tmp_path / "m")
    assert totals.hashed_here == 3
    assert found[b"docs/one.txt"].checksum == f"md5:{md5(b'one')}"
    assert found[b"docs/one.txt"].read_here
    assert found[b"sparse.img"].checksum is None


def test_a_long_file_has_its_turn_when_nothing_else_lacks_a_checksum(tmp_path: Path, tree: Path) -> None:
    (tree / "a long one").write_bytes(b"x" * 640)
    manifest.write_manifest(tree, {}, None, tmp_path / "m", hash_here_bytes=10)
    found = entries(tmp_path / "m")
    assert (found[b"a long one"].read_here, found[b"docs/one.txt"].checksum) == (True, None)
    (tree / "a long one").write_bytes(b"x" * 641)
    manifest.write_manifest(tree, {}, None, tmp_path / "n", hash_here_bytes=10)
    assert entries(tmp_path / "n")[b"a long one"].checksum is None


def test_reading_for_a_checksum_can_be_stopped(tmp_path: Path, tree: Path) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        manifest.write_manifest(tree, {}, None, tmp_path / "m", hash_here_bytes=10, check=stop)
    manifest.write_manifest(tree, {}, None, tmp_path / "n", check=stop)


def test_that_a_checksum_was_computed_here_is_carried_over(tmp_path: Path, tree: Path) -> None:
    manifest.write_manifest(tree, {}, None, tmp_path / "m", hash_here_bytes=10)
    assert entries(written(tmp_path, tree, {}, tmp_path / "m"))[b"docs/one.txt"].read_here


def test_a_manifest_is_never_overwritten(tmp_path: Path, tree: Path) -> None:
    out = written(tmp_path, tree)
    with pytest.raises(FileExistsError):
        manifest.write_manifest(tree, {}, None, out)


def test_rsync_in_fake_super_mode_is_understood(tmp_path: Path, tree: Path) -> None:
    for name in ("docs/one.txt", "docs/link", "pipe"):
        if os.geteuid() == 0:
            os.chown(tree / name, 1234, 2345, follow_symlinks=False)
    copy = tmp_path / "copy"
    subprocess.run(["rsync", "-aH", "--fake-super", f"{tree}/", f"{copy}/"], check=True)
    assert stat.S_ISREG(os.lstat(copy / "docs/link").st_mode)
    plain, fake = entries(written(tmp_path, tree)), entries(written(tmp_path, copy))
    for raw in (b"docs/one.txt", b"docs/link", b"pipe", b"locked"):
        shown = [(e.kind, e.mode, e.uid, e.gid, e.target, e.size) for e in (plain[raw], fake[raw])]
        assert shown[0] == shown[1]


@pytest.mark.parametrize("value", [b"", b"x", b"100644 0,0", b"100644 0,0 a:b", b"\xff"])
def test_a_senseless_fake_super_attribute_is_ignored(tmp_path: Path, value: bytes) -> None:
    write(tmp_path / "f", mode=0o600)
    os.setxattr(tmp_path / "f", FAKE_STAT, value)
    assert manifest.inspect(os.fsencode(tmp_path / "f"), b"f").mode == 0o600


def test_memory_does_not_grow_with_the_tree(tmp_path: Path) -> None:
    for folder in range(40):
        for n in range(25):
            write(tmp_path / "t" / f"folder-{folder}" / f"a rather long name of a file {n}")
    first = written(tmp_path, tmp_path / "t")
    tracemalloc.start()
    manifest.write_manifest(tmp_path / "t", {}, first, tmp_path / "second")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("keep", [0, 5, 40, -1, -9])
def test_a_cut_off_manifest_is_reported_in_words(tmp_path: Path, tree: Path, keep: int) -> None:
    path = written(tmp_path, tree)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ManifestDamaged, match=r"is damaged after \d+ entries"):
        list(manifest.read_manifest(path))


@pytest.mark.parametrize("place", [0, 20, 60, -6])
def test_a_flipped_byte_is_reported_in_words(tmp_path: Path, tree: Path, place: int) -> None:
    path = written(tmp_path, tree)
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ManifestDamaged, match="damaged"):
        list(manifest.read_manifest(path))


GOOD_LINE = Entry(b"a", "file", 1, 1, 0o600).to_line()


@pytest.mark.parametrize(
    "text",
    [
        GOOD_LINE,
        GOOD_LINE + '{"end": 2}\n',
        "[]\n",
        "7\n",
        "{}\n",
        "nonsense\n",
        '{"n":"../x","t":"file","s":1,"m":1,"p":1}\n',
        '{"n":"/etc/passwd","t":"file","s":1,"m":1,"p":1}\n',
    ],
)
def test_a_manifest_that_holds_something_else_is_reported_in_words(tmp_path: Path, text: str) -> None:
    with gzip.open(tmp_path / "m.gz", "wt") as out:
        out.write(text)
    with pytest.raises(ManifestDamaged, match="damaged"):
        list(manifest.read_manifest(tmp_path / "m.gz"))


def test_a_missing_manifest_is_reported_in_words(tmp_path: Path) -> None:
    with pytest.raises(ManifestDamaged, match="is missing"):
        list(manifest.read_manifest(tmp_path / "m.gz"))


def test_one_name_is_looked_up(tmp_path: Path, tree: Path) -> None:  # case C13
    path = written(tmp_path, tree)
    for name in (b"odd/caf\xe9.txt", "odd/caf%E9.txt"):
        found = manifest.lookup(path, name)
        assert found is not None
        assert found.name == b"odd/caf\xe9.txt"
    assert manifest.lookup(path, "odd/none") is manifest.lookup(path, "zzz") is None


def test_a_name_that_leads_outside_is_not_looked_up(tmp_path: Path, tree: Path) -> None:
    with pytest.raises(PathRefused):
        manifest.lookup(written(tmp_path, tree), "../x")


@pytest.mark.parametrize("folder", [".", "odd", "docs", "locked/deep"])
def test_browsing_a_manifest_and_a_tree_shows_the_same(tmp_path: Path, tree: Path, folder: str) -> None:
    from_manifest = list(manifest.browse(written(tmp_path, tree), folder))
    assert from_manifest == list(manifest.browse(tree, folder))
    assert [e.key[-1] for e in from_manifest] == sorted(os.listdir(os.fsencode(tree / folder)))


@pytest.mark.parametrize("folder", ["..", "/etc", "odd/../..", "none", "docs/one.txt"])
def test_browsing_a_tree_stays_inside(tree: Path, folder: str) -> None:
    with pytest.raises(PathRefused):
        list(manifest.browse(tree, folder))


def test_browsing_does_not_follow_a_link_out(tree: Path) -> None:
    (tree / "out").symlink_to("/etc")
    with pytest.raises(PathRefused, match="not a folder"):
        list(manifest.browse(tree, "out"))


def test_an_empty_tree_has_only_its_top(tmp_path: Path) -> None:  # case C15
    (tmp_path / "empty").mkdir()
    assert manifest.write_manifest(tmp_path / "empty", {}, None, tmp_path / "m") == Totals(dirs=1)
    assert [entry.name for entry in manifest.read_manifest(tmp_path / "m")] == [b"."]
