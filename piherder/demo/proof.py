"""What the demonstration claims, as functions that can say no: each raises Disproved with the first thing wrong."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosts.store.manifest import Entry, walk
from hosts.store.paths import encode_name
from jobs.models import Failure, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

BLOCK = 1 << 20
SECOND = 1_000_000_000  # rsync leaves a time alone that differs by less (rsync(1), --modify-window)
OWN_XATTRS = ("user.rsync.", "security.")  # kept by rsync --fake-super and by the kernel for itself


class Disproved(Exception):
    """A claim does not hold; the text is one plain sentence."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One path as it was found. `entry.link` is not used: the number of a file's names may change, its content not."""

    entry: Entry
    inode: int
    digest: str
    xattrs: tuple[tuple[str, bytes], ...]


Snapshot = dict[bytes, Seen]


def look(path: bytes, entry: Entry) -> Seen:
    """`path` described by `entry`, read to its end. Raises OSError."""
    digest = hash_of(path) if entry.kind == "file" else ""
    return Seen(entry._replace(link=None), os.lstat(path).st_ino, digest, xattrs_of(path))


def snapshot(tree: Path) -> Snapshot:
    """Everything below `tree`, by its name relative to it. Raises OSError."""
    top = os.fsencode(tree)
    return {entry.name: look(top + b"/" + entry.name, entry) for entry in walk(tree)}


def hash_of(path: bytes) -> str:
    """SHA-256 of a file's content. Raises OSError."""
    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def xattrs_of(path: bytes) -> tuple[tuple[str, bytes], ...]:
    """Extended attributes with their values, access lists among them; what rsync and the kernel add is left out."""
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:  # a filesystem without any
        return ()
    own = (name for name in sorted(names) if not name.startswith(OWN_XATTRS))
    return tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in own)


def shorthand(found: Snapshot) -> str:
    """Eight hex digits that stand for everything in a snapshot but the inodes."""
    whole = hashlib.sha256()
    for name in sorted(found):
        seen = found[name]
        whole.update(repr((seen.entry, seen.digest, seen.xattrs)).encode())
    return whole.hexdigest()[:8]


def require_same(before: Snapshot, after: Snapshot, what: str) -> None:
    """Both hold the same names, the same inodes, contents and metadata."""
    _require_names(set(before), set(after), what)
    for name, seen in before.items():
        if after[name] != seen:
            raise Disproved(f"{what}: {encode_name(name)} is not as it was")


def _require_names(wanted: set[bytes], found: set[bytes], what: str) -> None:
    if missing := sorted(wanted - found):
        raise Disproved(f"{what}: {encode_name(missing[0])} is missing")
    if extra := sorted(found - wanted):
        raise Disproved(f"{what}: {encode_name(extra[0])} should not be there")


def require_copy(source: Snapshot, copy: Snapshot, what: str, *, fake_super: bool = False) -> None:
    """`copy` holds what `source` does: content, kind, mode, owner, times, link targets, hard links and xattrs.

    With `fake_super` rsync keeps access lists in a form of its own; only the user's attributes are compared then.
    """
    _require_names(set(source), set(copy), what)
    for name, seen in source.items():
        _require_equal(seen, copy[name], f"{what}: {encode_name(name)}", ("user.",) if fake_super else ("",))
    if _groups(source) != _groups(copy):
        raise Disproved(f"{what}: the hard links are not those of the source")


def _require_equal(wanted: Seen, found: Seen, what: str, prefixes: tuple[str, ...]) -> None:
    pairs = {
        "kind": (wanted.entry.kind, found.entry.kind),
        "content": (wanted.digest, found.digest),
        "length": (wanted.entry.size, found.entry.size),
        "link target": (wanted.entry.target, found.entry.target),
        "mode": (wanted.entry.mode, found.entry.mode),
        "owner": ((wanted.entry.uid, wanted.entry.gid), (found.entry.uid, found.entry.gid)),
        "time": (wanted.entry.mtime_ns // SECOND, found.entry.mtime_ns // SECOND),
        "extended attributes": (_chosen(wanted, prefixes), _chosen(found, prefixes)),
    }
    for part, (left, right) in pairs.items():
        if left != right:
            raise Disproved(f"{what} has another {part}")


def _chosen(seen: Seen, prefixes: tuple[str, ...]) -> list[tuple[str, bytes]]:
    return [pair for pair in seen.xattrs if pair[0].startswith(prefixes)]


def _groups(found: Snapshot) -> set[frozenset[bytes]]:
    """Names that are one file, for every file with several names here."""
    names: dict[int, set[bytes]] = {}
    for name, seen in found.items():
        if seen.entry.kind == "file":
            names.setdefault(seen.inode, set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


def require_restored(wanted: Seen, found: Seen, what: str) -> None:
    """A restored file is what was backed up, in every part but its inode."""
    _require_equal(wanted, found, what, ("",))


@dataclass(frozen=True, slots=True)
class Shared:
    """How many files two generations share, and how many are the newer one's own."""

    same: int
    fresh: int


def require_hard_linked(old: Snapshot, new: Snapshot, changed: set[bytes], what: str) -> Shared:
    """Files that did not change are one inode in both generations; those in `changed` are another one in each."""
    files = {name for name, seen in new.items() if seen.entry.kind == "file"}
    both = {name for name in files if name in old and old[name].entry.kind == "file"}
    for name in both:
        shares = old[name].inode == new[name].inode
        if shares and name in changed:
            raise Disproved(f"{what}: {encode_name(name)} changed, but both generations share one file")
        if not shares and name not in changed:
            raise Disproved(f"{what}: {encode_name(name)} did not change, but takes space a second time")
    found = Shared(len(both - changed), len(files) - len(both - changed))
    if not found.same or not found.fresh:
        raise Disproved(f"{what}: nothing to compare ({found.same} files shared, {found.fresh} new)")
    return found


def require_sparse(path: bytes, what: str) -> None:
    """A file takes less space than it is long. Raises OSError."""
    found = os.lstat(path)
    if found.st_blocks * 512 >= found.st_size:
        raise Disproved(f"{what}: {encode_name(path)} lost its holes")


@dataclass(frozen=True, slots=True)
class Loss:
    """How a job ended whose worker was killed; `seconds` from the kill to the end of its row."""

    status: str
    failure: str
    words: str
    node: str
    seconds: float


def require_told(loss: Loss, limit: float) -> None:
    """The row failed, with the right code, in words that name the worker, in time, and still knows its worker."""
    if loss.status != Status.FAILED or loss.failure != Failure.WORKER_LOST:
        raise Disproved(f"the job of the killed worker ended as {loss.status} ({loss.failure or 'no code'})")
    if not loss.node or loss.node not in loss.words:
        raise Disproved(f"the failed job does not name its worker in words: {loss.words or 'it says nothing'}")
    if loss.seconds > limit:
        raise Disproved(f"the killed worker was noticed after {loss.seconds:.0f} s, not within {limit:.0f} s")


def require_one_rsync(peaks: Mapping[str, int], busy: str) -> None:
    """Every host was seen with one rsync, none ever with two. `busy` says what was counted."""
    for name, peak in peaks.items():
        if peak > 1:
            raise Disproved(f"{peak} rsyncs ran on {name} at once {busy}")
        if peak < 1:
            raise Disproved(f"no rsync was ever seen on {name} {busy}, so counting them proves nothing")


def most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    """The largest number of spans (start, end) that have a moment in common."""
    edges = sorted(edge for start, end in spans for edge in ((start, 1), (end, -1)))
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most
