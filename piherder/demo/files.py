"""The files of a throw-away host: some thousand small ones, and a few of everything that a careless copy loses."""

from __future__ import annotations

import os
import random
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDERS = (b"documents", b"photos", b"music", b"www")
ODD = (b"two words.txt", b"new\nline.txt", b"caf\xe9 in Latin-1.txt", b"-rf", b"st*r [x]?.txt", "ünï ☕.txt".encode())
TREASURE = b"odd/new\nline.txt"  # the file that is restored: its name, mode, time, xattr and ACL are all unusual
SPARSE = b"disk.img"
SPARSE_BYTES = 16 << 20
BIG = b"film.mkv"
OLD = 1_600_000_000_123_456_789  # ns since 1970, September 2020
STEP = 97_000_000_000
_NOBODY, _NO_ID = 65534, 0xFFFFFFFF
_RULES = ((1, 6, _NO_ID), (2, 4, _NOBODY), (4, 4, _NO_ID), (16, 4, _NO_ID), (32, 0, _NO_ID))  # tag, rights, who
ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *rule) for rule in _RULES)
"""rw for the owner, r for the user 65534, r for the group (linux/posix_acl_xattr.h, version 2)."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a host's files: names that are other files now, new names, and names that went."""

    changed: frozenset[bytes]
    added: frozenset[bytes]
    removed: frozenset[bytes]

    def __str__(self) -> str:
        return f"{len(self.changed)} changed, {len(self.added)} new, {len(self.removed)} gone"


def fill(folder: Path, seed: int, count: int) -> None:
    """Make `count` ordinary files and the unusual ones; the same seed makes the same ones. Raises OSError."""
    chance = random.Random(seed)
    pool = chance.randbytes(1 << 16)
    top = os.fsencode(folder)
    for number, path in enumerate(_names(top, count)):
        start = chance.randrange(1 << 15)
        _write(path, pool[start : start + chance.randrange(200, 6000)], OLD + number * STEP)
    _odd(top)
    _links(top)
    _sparse(top + b"/" + SPARSE)
    _rights(top)


def _names(top: bytes, count: int) -> Iterator[bytes]:
    for number in range(count):
        folder = b"%s/%s/%02d" % (top, FOLDERS[number % len(FOLDERS)], number // 100)
        if number % 100 < len(FOLDERS):
            os.makedirs(folder, exist_ok=True)
        yield b"%s/%04d.dat" % (folder, number)


def _write(path: bytes, content: bytes, mtime_ns: int) -> None:
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o644)
    os.utime(path, ns=(mtime_ns, mtime_ns))


def _odd(top: bytes) -> None:
    os.makedirs(top + b"/odd/empty folder")
    for number, name in enumerate(ODD):
        _write(top + b"/odd/" + name, name * 50, OLD - number * STEP)
    _write(top + b"/odd/empty", b"", OLD)


def _links(top: bytes) -> None:
    """Symbolic links that lead inside, outside and nowhere, and files with two and three names."""
    os.symlink(b"../odd/-rf", top + b"/odd/to a file")
    os.symlink(b"/etc/hostname", top + b"/odd/outside")
    os.symlink(b"nowhere\nat all", top + b"/odd/broken")
    os.mkdir(top + b"/names")
    for number in range(20):
        first = top + b"/names/%02d" % number
        _write(first, b"one file, several names %d\n" % number, OLD)
        os.link(first, first + b" again")
    os.link(top + b"/names/00", top + b"/odd/a third name")


def _sparse(path: bytes) -> None:
    with open(path, "wb") as file:
        file.seek(SPARSE_BYTES // 2)
        file.write(b"an island" * 100)
        file.truncate(SPARSE_BYTES)
    os.utime(path, ns=(OLD, OLD))


def _rights(top: bytes) -> None:
    """Modes, owners where we may set them, attributes and access lists where the filesystem takes them."""
    treasure = top + b"/" + TREASURE
    if os.geteuid() == 0:
        os.chown(treasure, 1234, 4321)
        os.chown(top + b"/odd/-rf", 65534, 65534)
    os.chmod(top + b"/odd/-rf", 0o400)
    os.chmod(top + b"/odd/empty folder", 0o2750)
    os.chmod(treasure, 0o640)
    for name, value in ((b"user.origin", b"demonstration \xff"), (b"system.posix_acl_access", ACL)):
        with suppress(OSError):  # a filesystem without them
            os.setxattr(treasure, name, value)
    os.utime(treasure, ns=(OLD, OLD))


def change(folder: Path, seed: int) -> Changes:
    """What a day does to files: edits (some of the same length), a mode, a rename, new files, files that go."""
    chance = random.Random(seed)
    top = os.fsencode(folder)
    picked = sorted(chance.sample(_ordinary(top), 60))
    edited, restricted, moved, gone = picked[:40], picked[40:45], picked[45:50], picked[50:]
    for name in edited:
        _edit(top + b"/" + name, chance)
    for name in restricted:
        os.chmod(top + b"/" + name, 0o600)
    for name in moved:
        os.rename(top + b"/" + name, top + b"/" + name + b".moved")
    for name in gone:
        os.unlink(top + b"/" + name)
    fresh = [b"documents/new %02d.txt" % number for number in range(10)]
    for name in fresh:
        _write(top + b"/" + name, chance.randbytes(3000), OLD)
    added = frozenset(fresh) | {name + b".moved" for name in moved}
    return Changes(frozenset(edited + restricted), added, frozenset(moved + gone))


def _ordinary(top: bytes) -> list[bytes]:
    found = []
    for kind in FOLDERS:
        for folder, _, names in os.walk(top + b"/" + kind):
            found += [os.path.relpath(folder + b"/" + name, top) for name in names]
    return sorted(found)


def _edit(path: bytes, chance: random.Random) -> None:
    """One byte turned over, the length as before; every other time a line more."""
    with open(path, "r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 0xFF]))
        if chance.random() < 0.5:
            file.seek(0, os.SEEK_END)
            file.write(b"and a line more\n")


def add_big(folder: Path, size: int) -> None:
    """A file of `size` bytes that cannot be compressed."""
    with open(os.fsencode(folder) + b"/" + BIG, "wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))


def count(folder: Path) -> int:
    """Names of files and links below a folder."""
    return sum(len(names) for _, _, names in os.walk(os.fsencode(folder)))
