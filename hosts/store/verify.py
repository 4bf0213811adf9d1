"""Whether a generation can still be read: a rotating share against its checksums, and a sample restored to scratch."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, takewhile
from math import ceil
from typing import TYPE_CHECKING

from hosts.store.layout import MANIFEST, TREE
from hosts.store.manifest import Entry, inspect, read_and_hash, read_manifest
from hosts.store.paths import decode_name, encode_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

NAMED = 50
"""How many names a finding lists; all are counted."""


@dataclass(slots=True)
class Finding:
    """How many paths have one fault, and the names of the first of them (`paths.encode_name`)."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, name: bytes) -> None:
        """Count one path."""
        self.count += 1
        if len(self.names) < NAMED:
            self.names.append(encode_name(name))


@dataclass(slots=True)
class VerifyReport:
    """What one verification read. `cursor` is where the next one starts; `complete` that it came all the way round, or
    to the end where it was to stop there.

    `changed`: other content, length, type or link target than the manifest says. `without_checksum`: read to the end
    and of the right length, but nothing to compare with.
    """

    checked: int = 0
    bytes: int = 0
    missing: Finding = field(default_factory=Finding)
    changed: Finding = field(default_factory=Finding)
    unreadable: Finding = field(default_factory=Finding)
    without_checksum: int = 0
    cursor: str = ""
    complete: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong with what was read."""
        return not (self.missing.count or self.changed.count or self.unreadable.count)

    def sentence(self) -> str:
        """One line for the job and the page."""
        faults = [
            f"{finding.count} {word} (first: {finding.names[0]})"
            for word, finding in (("missing", self.missing), ("changed", self.changed), ("unreadable", self.unreadable))
            if finding.count
        ]
        read = f"{self.checked} files, {self.bytes >> 20} MiB re-read"
        unknown = f", {self.without_checksum} of them without a checksum" if self.without_checksum else ""
        return f"{read}{unknown}: " + (", ".join(faults) if faults else "all as written") + "."


def _no_check() -> None:
    return None


def _no_progress(_files: int, _bytes: int) -> None:
    return None


def verify(
    generation_dir: Path,
    share: float,
    *,
    cursor: str = "",
    wrap: bool = True,
    max_bytes: int | None = None,
    check: Callable[[], None] = _no_check,
    on_progress: Callable[[int, int], None] = _no_progress,
    report: VerifyReport | None = None,
) -> VerifyReport:
    """Re-read a share (above 0, up to 1) of the files, from after `cursor` on and, with `wrap`, round the end, at most
    about `max_bytes` bytes.

    At least one file is read, so that the cursor moves; it can be carried over to a later generation of the source.
    `check` is called before each file and at each MiB and may raise to stop: an empty `report` of the caller's then
    says how far it came. `on_progress` gets files and bytes so far. Raises ManifestDamaged when the manifest cannot be
    read to its end, ValueError for another share.
    """
    if not 0 < share <= 1:
        raise ValueError("the share is above 0 and at most 1")
    manifest, tree, report = generation_dir / MANIFEST, os.fsencode(generation_dir / TREE), report or VerifyReport()
    report.cursor = cursor
    total = sum(entry.kind == "file" for entry in read_manifest(manifest))
    wanted = ceil(total * share)
    for entry in _from_cursor(manifest, cursor, wrap=wrap):
        if entry.kind == "file" and (report.checked >= wanted or _over(report, entry, max_bytes)):
            break
        check()
        _verify_one(tree, entry, report, check)
        report.cursor = encode_name(entry.name)
        on_progress(report.checked, report.bytes)
    else:
        report.complete = True
    return report


def _over(report: VerifyReport, entry: Entry, max_bytes: int | None) -> bool:
    return max_bytes is not None and report.checked > 0 and report.bytes + entry.size > max_bytes


def _from_cursor(manifest: Path, cursor: str, *, wrap: bool) -> Iterator[Entry]:
    """All entries once, starting after the cursor; without `wrap` only those."""
    start = tuple(decode_name(cursor).split(b"/")) if cursor not in ("", ".") else ()
    if not cursor:
        return read_manifest(manifest)
    after = (entry for entry in read_manifest(manifest) if entry.key > start)
    return after if not wrap else chain(after, takewhile(lambda entry: entry.key <= start, read_manifest(manifest)))


def _verify_one(tree: bytes, entry: Entry, report: VerifyReport, check: Callable[[], None]) -> None:
    path = tree if entry.name == b"." else tree + b"/" + entry.name
    try:
        found = inspect(path, entry.name)
        same = (found.kind, found.size, found.target) == (entry.kind, entry.size, entry.target)
        if same and entry.kind == "file":
            same = _same_content(path, entry, report, check)
    except (FileNotFoundError, NotADirectoryError):
        report.missing.add(entry.name)
    except OSError:
        report.unreadable.add(entry.name)
    else:
        if not same:
            report.changed.add(entry.name)
    report.checked += entry.kind == "file"


def _same_content(path: bytes, entry: Entry, report: VerifyReport, check: Callable[[], None]) -> bool:
    """Read a file to its end and compare. Raises OSError."""
    algorithm, wanted = _algorithm(entry)
    size, value = read_and_hash(path, algorithm, check)
    report.bytes += size
    report.without_checksum += not wanted
    return size == entry.size and (not wanted or value == entry.checksum)


def _algorithm(entry: Entry) -> tuple[str, bool]:
    """The algorithm to read with, and whether its value can be compared; rsync may have used one that Python lacks
    (xxh128).
    """
    name = (entry.checksum or "").partition(":")[0]
    known = name in ("md5", "sha1", "sha256", "sha512", "blake2b")
    return (name, True) if known else ("md5", False)


@dataclass(frozen=True, slots=True)
class SampleReport:
    """What "last proven restorable" shows. `problems` holds one sentence per file that did not come back as it was."""

    when: datetime
    files: int
    bytes: int
    problems: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether something was restored and all of it was right."""
        return self.files > 0 and not self.problems


def restore_sample(
    generation_dir: Path,
    scratch: Path,
    n: int,
    *,
    rng: random.Random | None = None,
    max_bytes: int = 1 << 30,
    check: Callable[[], None] = _no_check,
) -> SampleReport:
    """Copy up to `n` random files with their metadata into `scratch`, compare them with the manifest and remove them
    again.

    Files that would take more than `max_bytes` together are left out. A file whose checksum is unknown proves nothing
    and is not chosen. Raises ManifestDamaged, OSError when scratch cannot be written.
    """
    rng, problems, files, size = rng or random.Random(), [], 0, 0
    for entry in _reservoir(read_manifest(generation_dir / MANIFEST), n, rng):
        if size + entry.size > max_bytes:
            continue
        check()
        problem = _restore_one(generation_dir / TREE, scratch, entry, check)
        files, size = files + 1, size + entry.size
        problems += [problem] if problem else []
    return SampleReport(datetime.now(UTC), files, size, tuple(problems))


def _reservoir(entries: Iterable[Entry], n: int, rng: random.Random) -> list[Entry]:
    """`n` entries, each with the same chance, in one pass (Vitter's algorithm R)."""
    chosen: list[Entry] = []
    files = (entry for entry in entries if entry.kind == "file" and _algorithm(entry)[1])
    for index, entry in enumerate(files):
        if index < n:
            chosen.append(entry)
        elif (place := rng.randrange(index + 1)) < n:
            chosen[place] = entry
    return chosen


def _restore_one(tree: Path, scratch: Path, entry: Entry, check: Callable[[], None]) -> str:
    """A sentence when the copy differs from what the manifest says, else an empty one. Raises OSError for a fault of
    scratch.
    """
    source, name = os.fsencode(tree) + b"/" + entry.name, encode_name(entry.name)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="sample-") as folder:
        copy = os.fsencode(folder) + b"/" + entry.name.rsplit(b"/", 1)[-1]
        try:
            os.close(os.open(source, os.O_RDONLY | os.O_NOFOLLOW))
        except OSError as error:
            return f"{name} could not be read: {error.strerror}."
        shutil.copy2(source, copy, follow_symlinks=False)
        return _difference(copy, entry, name, check)


def _difference(copy: bytes, entry: Entry, name: str, check: Callable[[], None]) -> str:
    found = inspect(copy, entry.name)
    size, value = read_and_hash(copy, _algorithm(entry)[0], check)
    if size != entry.size or value != entry.checksum:
        return f"{name} came back with other content."
    if found.mtime_ns != entry.mtime_ns or found.mode != entry.mode:
        return f"{name} came back with another time or mode."
    return ""
