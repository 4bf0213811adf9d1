"""What is in a generation: gzipped JSON lines, one per path, in the order of the tree, ended by a line that counts
them.

Names are bytes on disk; in the manifest they are `paths.encode_name` text. The order is that of the tuples of path
parts, a folder before what it holds, so that two manifests and a walk can be merged without holding them in memory.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import zlib
from functools import cached_property
from typing import TYPE_CHECKING

from hosts.store.entry import FAKE_STAT, Entry, Key, Totals, evidence_of, inspect, walk
from hosts.store.paths import PathRefused, StoreError, decode_name, encode_name, relative_parts
from hosts.store.plain import NotPlain, require_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = [
    "FAKE_STAT", "Entry", "ManifestDamaged", "Totals", "browse", "hash_file", "inspect", "lookup", "read_and_hash",
    "read_manifest", "walk", "write_manifest",
]  # fmt: skip

_BLOCK = 1 << 20
_BUFFER = 1 << 16
_LARGEST = 64  # times what may be read: a first file as long as that is, or it would stay without a checksum for ever
_LEVEL = 3  # half the work of gzip's usual 6 for 8 % more bytes: most of a line is a checksum
_AFTER_HEAD = re.compile(rb'((?:,"c":"[a-z0-9]+:[0-9a-f]+"(?:,"r":true)?)?)(?:,"h":[0-9]+)?\}\n')


class ManifestDamaged(StoreError):
    """A manifest that cannot be read to its end; the text is one plain sentence."""


def _no_check() -> None:
    return None


def write_manifest(
    tree: Path,
    checksums: Mapping[bytes, str],
    previous: Path | None,
    out: Path,
    *,
    hash_here_bytes: int = 0,
    fake_super: bool = True,
    check: Callable[[], None] = _no_check,
) -> Totals:
    """Walk `tree` and write its manifest to `out`; memory does not grow with the tree. `layout.publish` syncs it.

    `checksums` holds `algorithm:hex` (or bare md5 hex) of the files transferred now, by name relative to the tree. Of
    the others a checksum is carried over from the manifest `previous` when size and mtime are the same. Up to
    `hash_here_bytes` bytes of files that still have none (adopted from an interrupted run), the first of them up to 64
    times that, are read and hashed here; `check` is called at each MiB and may raise to stop. A damaged `previous` only
    costs the carried-over checksums. `fake_super`: see `entry.inspect`. Raises OSError, FileExistsError when `out` is
    there.
    """
    totals, source = Totals(), _Checksums(tree, checksums, previous, hash_here_bytes, check)
    with (
        out.open("xb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=_LEVEL, mtime=0) as packed,
        io.BufferedWriter(packed, _BUFFER) as lines,
    ):
        for found in walk(tree, fake_super=fake_super):
            head = found.head().encode()
            evidence = source.evidence(found, head) if found.kind == "file" else b""
            totals.add(found, checksum=bool(evidence))
            lines.write(head + evidence + found.tail().encode())
        lines.write(json.dumps({"end": totals.files + totals.dirs + totals.others}).encode() + b"\n")
    totals.hashed_here = source.hashed
    return totals


class _Checksums:
    """Where the checksum of a file comes from: this transfer, the previous manifest, or a look at the copy."""

    def __init__(
        self,
        tree: Path,
        transferred: Mapping[bytes, str],
        previous: Path | None,
        budget: int,
        check: Callable[[], None],
    ) -> None:
        self.check = check
        self.top, self.transferred, self.budget, self.hashed = os.fsencode(tree), transferred, budget, 0
        self.previous = _Previous(previous)

    @cached_property
    def linked(self) -> dict[int, str]:
        """By inode: rsync transfers one of several linked names and reports no checksum for the rest."""
        found = {}
        for name, value in self.transferred.items():
            try:
                seen = os.lstat(self.top + b"/" + name)
            except OSError:
                continue
            if seen.st_nlink > 1:
                found[seen.st_ino] = value
        return found

    def evidence(self, entry: Entry, head: bytes) -> bytes:
        """`Entry.evidence` of a file, as bytes; nothing where there is none."""
        value = self.transferred.get(entry.name) or (self.linked.get(entry.link) if entry.link is not None else None)
        if value is not None:
            return evidence_of(value if ":" in value else f"md5:{value}").encode()
        return self.previous.evidence(entry, head) or self._hashed(entry).evidence().encode()

    def _hashed(self, entry: Entry) -> Entry:
        if entry.size > self.budget * (1 if self.hashed else _LARGEST):
            return entry
        self.budget = max(0, self.budget - entry.size)
        self.hashed += 1
        _, checksum = read_and_hash(self.top + b"/" + entry.name, "md5", self.check)
        return entry._replace(checksum=checksum, read_here=True)


class _Previous:
    """The previous manifest, read forward beside the walk; a line is only parsed where the two differ."""

    def __init__(self, path: Path | None) -> None:
        self.lines = iter(()) if path is None else _lines_until_damage(path)
        self._advance()

    def _advance(self) -> None:
        self.line = next(self.lines, b"")
        self.entry: Entry | None = None

    def evidence(self, entry: Entry, head: bytes) -> bytes:
        """The evidence of the file of this name, if size and mtime are still the same. Names must come in order."""
        while self.line:
            if self.line.startswith(head) and (found := _AFTER_HEAD.fullmatch(self.line, len(head))):
                self._advance()
                return found[1]
            old = self._parsed()
            if old is None or old.key > entry.key:
                return b""
            if old.name == entry.name:
                same = (old.kind, old.size, old.mtime_ns) == ("file", entry.size, entry.mtime_ns)
                return old.evidence().encode() if same and old.checksum else b""
            self._advance()
        return b""

    def _parsed(self) -> Entry | None:
        """The entry of the line. At the end, and where the manifest is damaged, there is none from here on."""
        if self.entry is None:
            try:
                self.entry = Entry.from_json(json.loads(self.line))
            except (ValueError, KeyError, TypeError, PathRefused):
                self.line, self.lines = b"", iter(())
        return self.entry


def _lines_until_damage(path: Path) -> Iterator[bytes]:
    try:
        with _opened(path) as lines:
            yield from lines
    except (OSError, EOFError, zlib.error, NotPlain):
        return


def _opened(path: Path) -> io.BufferedReader:
    require_plain(path)
    # GzipFile hands out lines by a method written in Python.
    return io.BufferedReader(gzip.open(path, "rb"), _BUFFER)


def hash_file(path: bytes, algorithm: str) -> str:
    """`algorithm:hex` of a file, links not followed. Raises OSError, ValueError for an algorithm that Python lacks."""
    return read_and_hash(path, algorithm)[1]


def read_and_hash(path: bytes, algorithm: str, check: Callable[[], None] = _no_check) -> tuple[int, str]:
    """Bytes read and `algorithm:hex` of a file, links not followed. `check` is called at each MiB and may raise.

    Raises OSError, ValueError.
    """
    digest, size = hashlib.new(algorithm, usedforsecurity=False), 0
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            check()
            digest.update(block)
            size += len(block)
    return size, f"{algorithm}:{digest.hexdigest()}"


def read_manifest(path: Path) -> Iterator[Entry]:
    """The entries in order. Raises ManifestDamaged when the file is missing, unreadable, cut off or not what was
    written.
    """
    count = 0
    try:
        with _opened(path) as packed:
            for line in packed:
                raw = json.loads(line)
                if "end" in raw:
                    if raw["end"] != count:
                        raise _damaged(path, count, f"it should hold {raw['end']}")
                    if packed.read(1):  # reading to the end also makes gzip compare its checksum
                        raise _damaged(path, count, "it goes on after its end")
                    return
                yield Entry.from_json(raw)
                count += 1
    except FileNotFoundError as error:
        raise ManifestDamaged(f"The manifest {_shown(path)} is missing; this generation cannot be verified.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, count, str(error)) from error
    except NotPlain as error:
        raise _damaged(path, count, "it is no regular file") from error
    except (ValueError, KeyError, TypeError, RecursionError, PathRefused) as error:
        raise _damaged(path, count, "a line is not readable") from error
    raise _damaged(path, count, "its end is missing")


def _damaged(path: Path, count: int, why: str) -> ManifestDamaged:
    return ManifestDamaged(
        f"The manifest {_shown(path)} is damaged after {count} entries ({why}); the files may still be good."
    )


def _shown(path: Path) -> str:
    return encode_name(os.fspath(path))


def lookup(path: Path, name: str | bytes) -> Entry | None:
    """The entry of one name (bytes, or text of `encode_name`). Raises ManifestDamaged, PathRefused."""
    key = relative_parts(_raw(name))
    for entry in read_manifest(path):
        if entry.key >= key:
            return entry if entry.key == key else None
    return None


def browse(where: Path, folder: str | bytes = b".") -> Iterator[Entry]:
    """What one folder of a generation holds, in byte order. `where` is a manifest, or a `tree` folder to look at
    itself.

    Raises ManifestDamaged, PathRefused for a folder that is none or leads outside, OSError.
    """
    parts = relative_parts(_raw(folder))
    return _browse_tree(where, parts) if where.is_dir() else _browse_manifest(where, parts)


def _browse_manifest(path: Path, parts: Key) -> Iterator[Entry]:
    depth = len(parts)
    for entry in read_manifest(path):
        key = entry.key
        if key[:depth] > parts:
            return
        if key[:depth] == parts and len(key) == depth + 1:
            yield entry


def _browse_tree(tree: Path, parts: Key) -> Iterator[Entry]:
    top = os.fsencode(tree.resolve())
    folder = b"/".join((top, *parts))
    if os.path.realpath(folder) != folder or not os.path.isdir(folder):
        raise PathRefused(f"{encode_name(b'/'.join(parts))} is not a folder of this generation.")
    for name in sorted(os.listdir(folder)):
        yield inspect(folder + b"/" + name, b"/".join((*parts, name)))


def _raw(name: str | bytes) -> bytes:
    return name if isinstance(name, bytes) else decode_name(name)
