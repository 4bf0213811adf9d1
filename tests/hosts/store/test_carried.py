"""What a manifest takes over from the one before it, and that its lines, written by hand, are JSON."""

from __future__ import annotations

import gzip
import json
import os
import random
from typing import TYPE_CHECKING

import pytest

from hosts.store import layout, manifest
from hosts.store.entry import FAKE_STAT, Entry
from hosts.store.paths import encode_name
from tests.hosts.store.build import info, md5, sums, write, write_partial

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ODD = [b"plain", b'quo"te', b"back\\slash", b"caf\xe9", "Grüße/€".encode(), b"a%b", b"tab\tend\n", b"\x7f\xc2\x85"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a/one", "a/two", "b/three"):
        write(tmp_path / "tree" / name, name.encode())
    return tmp_path / "tree"


def checksums(path: Path) -> dict[bytes, str | None]:
    return {entry.name: entry.checksum for entry in manifest.read_manifest(path) if entry.kind == "file"}


def first(tree: Path) -> Path:
    """The manifest of a whole transfer."""
    manifest.write_manifest(tree, sums(tree), None, tree.parent / "first")
    return tree.parent / "first"


def second(tree: Path, before: Path) -> Path:
    """The manifest after a transfer of nothing."""
    manifest.write_manifest(tree, {}, before, tree.parent / "second")
    return tree.parent / "second"


def as_json(entry: Entry) -> str:
    """The line as json writes it."""
    target = None if entry.target is None else encode_name(entry.target)
    every = {
        "n": encode_name(entry.name), "t": entry.kind, "s": entry.size, "m": entry.mtime_ns, "p": entry.mode,
        "u": entry.uid, "g": entry.gid, "l": target, "c": entry.checksum, "r": entry.read_here or None, "h": entry.link,
    }  # fmt: skip
    there = {key: value for key, value in every.items() if value is not None}
    return json.dumps(there, ensure_ascii=False, separators=(",", ":")) + "\n"


def test_lines_are_what_json_would_write() -> None:  # case C13
    rng = random.Random(5)
    for _ in range(300):
        entry = Entry(
            rng.choice(ODD), rng.choice(["file", "symlink"]), rng.randrange(1 << 40), -rng.randrange(9), 0o644,
            rng.choice([None, 0, 70000]), rng.choice([None, 5]), rng.choice([None, *ODD]),
            rng.choice([None, "md5:ab", 'md5:"']), link=rng.choice([None, 7]),
        )  # fmt: skip
        assert entry.to_line() == as_json(entry)
        assert Entry.from_json(json.loads(entry.to_line())) == entry


def own_mode(path: Path) -> None:
    path.chmod(0o604)


def another_name(path: Path) -> None:
    os.link(path, path.parents[2] / "in the next generation")


@pytest.mark.parametrize("change", [own_mode, another_name])
def test_what_leaves_the_content_alone_leaves_the_checksum(tree: Path, change: Callable[[Path], None]) -> None:
    before = first(tree)
    change(tree / "a/two")
    after = second(tree, before)
    assert checksums(after) == checksums(before)
    [entry] = [entry for entry in manifest.read_manifest(after) if entry.name == b"a/two"]
    assert entry == manifest.inspect(os.fsencode(tree / "a/two"), b"a/two")._replace(checksum=entry.checksum)


def test_a_folder_where_a_file_was_takes_nothing_over(tree: Path) -> None:
    before = first(tree)
    (tree / "a/two").unlink()
    write(tree / "a/two/inside")
    after = checksums(second(tree, before))
    assert [name for name, value in after.items() if value is None] == [b"a/two/inside"]


@pytest.mark.parametrize("line", ["[]", "7", "nonsense", '{"n":"../x"}', '{"n":5}', ""])
def test_behind_a_senseless_line_nothing_is_taken_over(tree: Path, line: str) -> None:
    lines = gzip.decompress(first(tree).read_bytes()).splitlines()
    lines.insert(3, line.encode())
    damaged = tree.parent / "damaged"
    damaged.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    assert checksums(second(tree, damaged)) == {b"a/one": f"md5:{md5(b'a/one')}", b"a/two": None, b"b/three": None}


@pytest.mark.parametrize(("fake_super", "mode"), [(True, 0o751), (False, 0o640)])
def test_the_attribute_of_fake_super_counts_where_fake_super_wrote(root: Path, fake_super: bool, mode: int) -> None:
    partial = write_partial(root, "a", {"file": b"1"})
    (partial.tree / "file").chmod(0o640)
    os.setxattr(partial.tree / "file", FAKE_STAT, b"100751 0,0 1:2")
    layout.seal(partial, info(1, fake_super=fake_super), {}, None)
    found = manifest.lookup(partial.path / layout.MANIFEST, "file")
    assert found is not None
    assert found.mode == mode
