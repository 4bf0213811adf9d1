"""What is in a generation: gzipped JSON lines, one per path, in the order of the tree, ended by a line that counts
them.

Names are bytes on disk; in the manifest they are `paths.encode_name` text. The order is that of the tuples of path
parts, a folder before what it holds, so that two manifests and a walk can be merged without holding them in memory.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hosts.store.paths import PathRefused, StoreError, decode_name, encode_name, relative_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FAKE_STAT = "user.rsync.%stat"
"""Where rsync --fake-super keeps mode, device numbers and owner of a file (rsync source, xattrs.c)."""
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink"}
_BLOCK = 1 << 20

Key = tuple[bytes, ...]


class ManifestDamaged(StoreError):
    """A manifest that cannot be read to its end; the text is one plain sentence."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a generation. `kind` is file, dir, symlink or other; `mtime_ns` nanoseconds since 1970 UTC.

    `mode` holds the permission bits only. `checksum` is `algorithm:hex`, None when unknown; `read_here` says that it
    was computed from the copy and not by the transfer, so it proves no more than that the copy did not change since.
    `link` is the same number for names that were one file (its inode when written), None for a file with one name.
    """

    name: bytes
    kind: str
    size: int
    mtime_ns: int
    mode: int
    uid: int | None = None
    gid: int | None = None
    target: bytes | None = None
    checksum: str | None = None
    read_here: bool = False
    link: int | None = None

    @property
    def key(self) -> Key:
        """The place of the entry in the order of the manifest."""
        return () if self.name == b"." else tuple(self.name.split(b"/"))

    def to_line(self) -> str:
        """The entry as one line of JSON."""
        target = None if self.target is None else encode_name(self.target)
        found: dict[str, object] = {
            "n": encode_name(self.name),
            "t": self.kind,
            "s": self.size,
            "m": self.mtime_ns,
            "p": self.mode,
        }
        optional = {
            "u": self.uid, "g": self.gid, "l": target, "c": self.checksum,
            "r": self.read_here or None, "h": self.link,
        }  # fmt: skip
        found.update((key, value) for key, value in optional.items() if value is not None)
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n"

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Entry:
        """Read `to_line` back. Raises KeyError, ValueError, TypeError or PathRefused for a name that
        leads outside.
        """
        name, target = decode_name(raw["n"]), raw.get("l")
        relative_parts(name)
        return cls(
            name, str(raw["t"]), int(raw["s"]), int(raw["m"]), int(raw["p"]), raw.get("u"), raw.get("g"),
            None if target is None else decode_name(target), raw.get("c"), bool(raw.get("r")), raw.get("h"),
        )  # fmt: skip


@dataclass(slots=True)
class Totals:
    """Sums over a tree. `bytes` are the lengths of all files, a file with two names counted twice, holes included."""

    files: int = 0
    dirs: int = 0
    others: int = 0
    bytes: int = 0
    with_checksum: int = 0
    hashed_here: int = 0

    def add(self, entry: Entry) -> None:
        """Count one entry."""
        if entry.kind == "file":
            self.files += 1
            self.bytes += entry.size
            self.with_checksum += entry.checksum is not None
        elif entry.kind == "dir":
            self.dirs += 1
        else:
            self.others += 1


def inspect(path: bytes, name: bytes) -> Entry:
    """Describe what lies at `path` without following links, as the source had it when fake-super kept that. Raises
    OSError.
    """
    found = os.lstat(path)
    mode, uid, gid = found.st_mode, found.st_uid, found.st_gid
    fake = None if stat.S_ISLNK(mode) else _fake_stat(path)
    if fake is not None:
        mode, uid, gid = fake
    kind = _KINDS.get(stat.S_IFMT(mode), "other")
    target = _target(path, found.st_mode) if kind == "symlink" else None
    link = found.st_ino if found.st_nlink > 1 and kind != "dir" else None
    size = found.st_size if kind == "file" else 0
    return Entry(name, kind, size, found.st_mtime_ns, stat.S_IMODE(mode), uid, gid, target, link=link)


def _fake_stat(path: bytes) -> tuple[int, int, int] | None:
    try:
        mode, _device, owner = os.getxattr(path, FAKE_STAT, follow_symlinks=False).decode().split()
        uid, gid = owner.split(":")
        return int(mode, 8), int(uid), int(gid)
    except (OSError, ValueError):
        return None


def _target(path: bytes, real_mode: int) -> bytes:
    """Fake-super keeps a symbolic link as a file that holds the target."""
    if stat.S_ISLNK(real_mode):
        return os.readlink(path)
    with open(path, "rb") as file:
        return file.read(1 << 16)


def walk(tree: Path) -> Iterator[Entry]:
    """Every path under `tree`, itself first as `.`, in manifest order. Holds one folder's names per level. Raises
    OSError.
    """
    top = os.fsencode(tree)
    yield inspect(top, b".")
    pending = [_children(top, b"")]
    while pending:
        name = next(pending[-1], None)
        if name is None:
            pending.pop()
            continue
        entry = inspect(top + b"/" + name, name)
        yield entry
        if entry.kind == "dir":
            pending.append(_children(top + b"/" + name, name + b"/"))


def _children(folder: bytes, prefix: bytes) -> Iterator[bytes]:
    return iter([prefix + name for name in sorted(os.listdir(folder))])


def write_manifest(
    tree: Path, checksums: Mapping[bytes, str], previous: Path | None, out: Path, *, hash_here_bytes: int = 0
) -> Totals:
    """Walk `tree` and write its manifest to `out`, synced; memory does not grow with the tree.

    `checksums` holds `algorithm:hex` (or bare md5 hex) of the files transferred now, by name relative to the tree. Of
    the others a checksum is carried over from the manifest `previous` when size and mtime are the same. Up to
    `hash_here_bytes` bytes of files that still have none (adopted from an interrupted run) are read and hashed here. A
    damaged `previous` only costs the carried-over checksums. Raises OSError, FileExistsError when `out` is there.
    """
    totals, source = Totals(), _Checksums(tree, checksums, previous, hash_here_bytes)
    with out.open("xb") as raw:
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
            for found in walk(tree):
                entry = source.fill(found) if found.kind == "file" else found
                totals.add(entry)
                packed.write(entry.to_line().encode())
            packed.write(json.dumps({"end": totals.files + totals.dirs + totals.others}).encode() + b"\n")
        raw.flush()
        os.fsync(raw.fileno())
    return replace(totals, hashed_here=source.hashed)


class _Checksums:
    """Where the checksum of a file comes from: this transfer, the previous manifest, or a look at the copy."""

    def __init__(self, tree: Path, transferred: Mapping[bytes, str], previous: Path | None, budget: int) -> None:
        self.top, self.transferred, self.budget, self.hashed = os.fsencode(tree), transferred, budget, 0
        self.linked = dict(self._linked())
        self.previous = _Previous(previous)

    def _linked(self) -> Iterator[tuple[int, str]]:
        """By inode: rsync transfers one of several linked names and reports no checksum for the rest."""
        for name, value in self.transferred.items():
            try:
                found = os.lstat(self.top + b"/" + name)
            except OSError:
                continue
            if found.st_nlink > 1:
                yield found.st_ino, value

    def fill(self, entry: Entry) -> Entry:
        value = self.transferred.get(entry.name) or (self.linked.get(entry.link) if entry.link is not None else None)
        if value is not None:
            return replace(entry, checksum=value if ":" in value else f"md5:{value}")
        old = self.previous.find(entry.key)
        if (
            old is not None
            and old.checksum
            and (old.kind, old.size, old.mtime_ns) == ("file", entry.size, entry.mtime_ns)
        ):
            return replace(entry, checksum=old.checksum, read_here=old.read_here)
        if entry.size > self.budget:
            return entry
        self.budget -= entry.size
        self.hashed += 1
        return replace(entry, checksum=hash_file(self.top + b"/" + entry.name, "md5"), read_here=True)


class _Previous:
    """The previous manifest, read forward beside the walk."""

    def __init__(self, path: Path | None) -> None:
        self.entries = iter(()) if path is None else read_manifest(path)
        self.current: Entry | None = None
        self._advance()

    def _advance(self) -> None:
        try:
            self.current = next(self.entries, None)
        except StoreError:
            self.current = None
            self.entries = iter(())

    def find(self, key: Key) -> Entry | None:
        """The entry with this key; keys must come in rising order."""
        while self.current is not None and self.current.key < key:
            self._advance()
        return self.current if self.current is not None and self.current.key == key else None


def hash_file(path: bytes, algorithm: str) -> str:
    """`algorithm:hex` of a file, links not followed. Raises OSError, ValueError for an algorithm that Python lacks."""
    return read_and_hash(path, algorithm)[1]


def read_and_hash(path: bytes, algorithm: str) -> tuple[int, str]:
    """Bytes read and `algorithm:hex` of a file, links not followed. Raises OSError, ValueError."""
    digest, size = hashlib.new(algorithm, usedforsecurity=False), 0
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return size, f"{algorithm}:{digest.hexdigest()}"


def read_manifest(path: Path) -> Iterator[Entry]:
    """The entries in order. Raises ManifestDamaged when the file is missing, unreadable, cut off or not what was
    written.
    """
    count = 0
    try:
        with gzip.open(path, "rb") as packed:
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
    except (ValueError, KeyError, TypeError, PathRefused) as error:
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
