"""Builds real trees and generations for the tests of the store."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hosts.store import layout
from hosts.store.manifest import walk

INSTALL = "install-1"
HOST, SOURCE = "pi-1", "/srv/data"
START = datetime(2026, 11, 30, 2, 15, tzinfo=UTC)
ODD_NAMES = (b"new\nline", b"caf\xe9.txt", b"-rf", b"100%", b"a b", "grün".encode(), b"tab\there", b"\xff\xfe")


def fill_disk(folder: Path) -> Path:
    """Write a file until nothing more fits, and return it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as out, suppress(OSError):
        while out.write(bytes(4096)):
            pass
    return ballast


def info(sequence: int, *, fake_super: bool = False) -> layout.GenerationInfo:
    """The record of a run that started `sequence` days after the first."""
    started = START + timedelta(days=sequence)
    finished = started + timedelta(minutes=3)
    return layout.GenerationInfo(HOST, SOURCE, sequence, started, finished, INSTALL, "17", fake_super=fake_super)


def write(path: Path | bytes, data: bytes = b"data", mode: int = 0o640) -> None:
    """A file with its folders."""
    raw = os.fsencode(path)
    os.makedirs(os.path.dirname(raw), exist_ok=True)
    with open(raw, "wb") as out:
        out.write(data)
    os.chmod(raw, mode)


def fill(tree: Path) -> None:
    """Odd names, hard links, a sparse file, links and read-only folders."""
    for name in ODD_NAMES:
        write(os.fsencode(tree) + b"/odd/" + name, name)
    write(tree / "docs" / "one.txt", b"one")
    os.link(tree / "docs" / "one.txt", tree / "docs" / "same-as-one.txt")
    (tree / "docs" / "link").symlink_to("../nowhere")
    with (tree / "sparse.img").open("wb") as out:
        out.truncate(8 << 20)
    os.mkfifo(tree / "pipe")
    write(tree / "locked" / "deep" / "file", b"locked")
    (tree / "locked" / "deep").chmod(0o500)
    (tree / "locked").chmod(0o500)


def sums(tree: Path) -> dict[bytes, str]:
    """The checksums a transfer of the whole tree would have reported, as rsync does: once per inode."""
    seen: set[int] = set()
    found: dict[bytes, str] = {}
    for entry in walk(tree):
        path = os.fsencode(tree) + b"/" + entry.name
        inode = os.lstat(path).st_ino
        if entry.kind == "file" and inode not in seen:
            seen.add(inode)
            found[entry.name] = md5(Path(os.fsdecode(path)).read_bytes())
    return found


def md5(data: bytes) -> str:
    """Bare hex, as rsync's `%C` prints it."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def source_dir(root: Path) -> Path:
    """Where the test source's generations lie."""
    return root / HOST / layout.source_folder_name(SOURCE)


def write_partial(root: Path, attempt: str, files: dict[str, bytes]) -> layout.Partial:
    """What rsync would have written for one attempt."""
    partial = layout.take_over(source_dir(root), attempt)
    for name, data in files.items():
        write(partial.tree / name, data)
    return partial


def publish(root: Path, sequence: int, files: dict[str, bytes], previous: Path | None = None) -> Path:
    """One good generation."""
    partial = write_partial(root, f"attempt-{sequence}", files)
    return finish(partial, sequence, previous)


def finish(partial: layout.Partial, sequence: int, previous: Path | None = None) -> Path:
    """Seal and publish a written partial."""
    record, _totals = layout.seal(partial, info(sequence), sums(partial.tree), previous)
    return layout.publish(partial, partial.path.parent / record.folder_name)


def snapshot(top: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything about a tree that a backup keeps: kind, mode, owner, time, content, inode."""
    found: dict[bytes, tuple[object, ...]] = {}
    for entry in walk(top):
        path = os.fsencode(top) + b"/" + entry.name
        status = os.lstat(path)
        content = Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(status.st_mode) else None
        found[entry.name] = (status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, status.st_ino, content)
    return found
