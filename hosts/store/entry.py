"""One path of a generation, as the manifest describes it, and the walk that finds them all."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NamedTuple

from hosts.store.paths import decode_name, encode_name, relative_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FAKE_STAT = "user.rsync.%stat"
"""Where rsync --fake-super keeps mode, device numbers and owner of a file (rsync source, xattrs.c)."""
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink"}

Key = tuple[bytes, ...]
quoted = encode_basestring  # what a JSONEncoder that keeps UTF-8 calls, at a third of the time


class Entry(NamedTuple):
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
        return key_of(self.name)

    def head(self) -> str:
        """The start of the line: everything that a look at the path tells, but for `link`."""
        # By hand: json.dumps of a dict takes five times as long, which shows with 100,000 files.
        line = f'{{"n":{quoted(encode_name(self.name))},"t":"{self.kind}","s":{self.size},"m":{self.mtime_ns}'
        line += f',"p":{self.mode}'
        if self.uid is not None:
            line += f',"u":{self.uid}'
        if self.gid is not None:
            line += f',"g":{self.gid}'
        return line if self.target is None else f'{line},"l":{quoted(encode_name(self.target))}'

    def evidence(self) -> str:
        """The part of the line between `head` and `tail`: the checksum and where it comes from."""
        return "" if self.checksum is None else evidence_of(self.checksum, read_here=self.read_here)

    def tail(self) -> str:
        """The end of the line."""
        return "}\n" if self.link is None else f',"h":{self.link}}}\n'

    def to_line(self) -> str:
        """The entry as one line of JSON."""
        return self.head() + self.evidence() + self.tail()

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


def evidence_of(checksum: str, *, read_here: bool = False) -> str:
    """`Entry.evidence` of an entry with this checksum."""
    return f',"c":{quoted(checksum)}' + (',"r":true' if read_here else "")


def key_of(name: bytes) -> Key:
    """The place of a name in the order of the manifest."""
    return () if name == b"." else tuple(name.split(b"/"))


@dataclass(slots=True)
class Totals:
    """Sums over a tree. `bytes` are the lengths of all files, a file with two names counted twice, holes included."""

    files: int = 0
    dirs: int = 0
    others: int = 0
    bytes: int = 0
    with_checksum: int = 0
    hashed_here: int = 0

    def add(self, entry: Entry, *, checksum: bool) -> None:
        """Count one entry, of which a checksum is known or not."""
        if entry.kind == "file":
            self.files += 1
            self.bytes += entry.size
            self.with_checksum += checksum
        elif entry.kind == "dir":
            self.dirs += 1
        else:
            self.others += 1


def inspect(path: bytes, name: bytes, *, fake_super: bool = True) -> Entry:
    """Describe what lies at `path` without following links, as the source had it when fake-super kept that. Raises
    OSError.

    With `fake_super` off the attribute is not looked for: a copy made by root has none.
    """
    found = os.lstat(path)
    mode, uid, gid = found.st_mode, found.st_uid, found.st_gid
    fake = _fake_stat(path) if fake_super and not stat.S_ISLNK(mode) else None
    if fake is not None:
        mode, uid, gid = fake
    kind = _KINDS.get(stat.S_IFMT(mode), "other")
    target = _target(path, found.st_mode) if kind == "symlink" else None
    link = found.st_ino if found.st_nlink > 1 and kind != "dir" else None
    size = found.st_size if kind == "file" else 0
    return Entry(name, kind, size, found.st_mtime_ns, stat.S_IMODE(mode), uid, gid, target, None, False, link)


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


def walk(tree: Path, *, fake_super: bool = True) -> Iterator[Entry]:
    """Every path under `tree`, itself first as `.`, in manifest order. Holds one folder's names per level. Raises
    OSError.
    """
    top = os.fsencode(tree)
    yield inspect(top, b".", fake_super=fake_super)
    pending = [_children(top, b"")]
    while pending:
        name = next(pending[-1], None)
        if name is None:
            pending.pop()
            continue
        entry = inspect(top + b"/" + name, name, fake_super=fake_super)
        yield entry
        if entry.kind == "dir":
            pending.append(_children(top + b"/" + name, name + b"/"))


def _children(folder: bytes, prefix: bytes) -> Iterator[bytes]:
    return iter([prefix + name for name in sorted(os.listdir(folder))])
