"""How generations lie on disk: `<root>/<host>/<source>/<sequence>-<UTC time>/` with `tree/`, a manifest and
generation.json.

A generation is written as `.partial-<attempt>` and appears under its name by one rename, after its filesystem was
synced. It goes by one rename into `<root>/.trash` and is removed there. All of it is done while holding the host's
lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hosts.store.manifest import write_manifest
from hosts.store.paths import StoreError, decode_name, encode_name, normalise, require_inside, to_bytes
from hosts.store.plain import NotPlain, read_plain
from hosts.store.root import sync_folder
from hosts.store.syncing import sync_ahead, sync_filesystem
from hosts.store.trash import discard, no_tick, open_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hosts.store.manifest import Totals

TREE, MANIFEST, INFO, PARTIAL = "tree", "manifest.jsonl.gz", "generation.json", ".partial-"
Raw = bytes
_GENERATION = re.compile(r"(\d{6,})-(\d{8}T\d{6}Z)")
_TIME = "%Y%m%dT%H%M%SZ"
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.+@]*")
_ATTEMPT = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class LayoutError(StoreError):
    """The store is not as it must be for this step; the text is one plain sentence."""


def _nothing(_step: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """generation.json: enough to attach a disk again without a database. Times are ISO 8601 in UTC.

    `bytes` is the length of all files, `changed` how many the run transferred, `duration` seconds, `rsync_code` rsync's
    exit code (0, 23 or 24), `fake_super` that owners and modes are in the xattr user.rsync.%stat. `excludes` and
    `one_file_system` say what was left out. `host_keys` are the fingerprints by which the host was known.
    """

    host: str
    source: str
    sequence: int
    started: datetime
    finished: datetime
    install_id: str
    job_id: str
    files: int = 0
    dirs: int = 0
    bytes: int = 0
    changed: int = 0
    with_checksum: int = 0
    duration: float = 0.0
    rsync_code: int = 0
    warnings: tuple[str, ...] = ()
    fake_super: bool = False
    excludes: tuple[str, ...] = ()
    one_file_system: bool = False
    host_keys: tuple[str, ...] = ()
    format: int = 1

    @property
    def folder_name(self) -> str:
        """The name of the generation's folder."""
        return generation_name(self.sequence, self.started)

    def to_json(self) -> Raw:
        """The file's content; the source's path and the excludes in the form of `encode_name`."""
        raw = asdict(self) | {"source": encode_name(self.source), "excludes": [*map(encode_name, self.excludes)]}
        return json.dumps(raw, default=_iso, ensure_ascii=False, indent=1).encode() + b"\n"

    @classmethod
    def from_json(cls, data: Raw) -> GenerationInfo:
        """Read `to_json` back, ignoring what later versions add. Raises LayoutError for anything else."""
        try:
            found: dict[str, Any] = json.loads(data)
            known = {f.name: found[f.name] for f in fields(cls) if f.name in found}
            times = {key: datetime.fromisoformat(known[key]) for key in ("started", "finished")}
            source = os.fsdecode(decode_name(known["source"]))
            excludes = tuple(os.fsdecode(decode_name(pattern)) for pattern in known.get("excludes", ()))
            lists = {name: tuple(known.get(name, ())) for name in ("warnings", "host_keys")} | {"excludes": excludes}
            return cls(**{**known, **times, **lists, "source": source})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise LayoutError(f"{INFO} is damaged: {error}.") from error


def _iso(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(type(value).__name__)


def generation_name(sequence: int, started: datetime) -> str:
    """`000042-20261130T021500Z`. Raises ValueError for a time without zone or a negative sequence."""
    if started.tzinfo is None or sequence < 0:
        raise ValueError("a generation needs a time with a zone and a sequence of 0 or more")
    return f"{sequence:06d}-{started.astimezone(UTC).strftime(_TIME)}"


def source_folder_name(path: str | bytes) -> str:
    """A folder name for a source path, never the same for two paths, also where case does not count: /srv/data is
    `srv-data`.

    Paths that this would not tell apart or that hold unusual characters get a hash after a `~`, which no plain name
    holds.
    """
    text = normalise(path)
    if text == "/":
        return "root~fs"
    parts = text[1:].split("/")
    plain = "-".join(parts)
    if len(plain) <= 100 and all(_PLAIN.fullmatch(part) for part in parts):
        return plain
    slug = re.sub(r"[^A-Za-z0-9_+@-]+", "_", plain).strip("_-")[:60] or "source"
    return f"{slug}~{hashlib.sha256(to_bytes(text)).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class StoredGeneration:
    """A generation found on disk. `info` is None when generation.json is missing or damaged, and `problem` says so."""

    path: Path
    sequence: int
    taken_at: datetime
    info: GenerationInfo | None
    problem: str = ""


def list_generations(source_dir: Path) -> list[StoredGeneration]:
    """The published generations of a source by rising sequence; none when the folder is missing. Raises OSError."""
    if not source_dir.is_dir():
        return []
    matches = [(path, _GENERATION.fullmatch(path.name)) for path in source_dir.iterdir() if not path.is_symlink()]
    found = [_stored(path, int(m[1]), m[2]) for path, m in matches if m]
    return sorted(found, key=lambda generation: (generation.sequence, generation.path.name))


def _stored(path: Path, sequence: int, stamp: str) -> StoredGeneration:
    taken_at = datetime.strptime(stamp, _TIME).replace(tzinfo=UTC)
    try:
        return StoredGeneration(path, sequence, taken_at, GenerationInfo.from_json(read_plain(path / INFO)))
    except (OSError, NotPlain, LayoutError) as error:
        return StoredGeneration(path, sequence, taken_at, None, f"{encode_name(path.name)} cannot be attached: {error}")


def next_sequence(source_dir: Path) -> int:
    """One more than the highest on disk; the caller takes the higher of this and its database's."""
    names = (_GENERATION.fullmatch(name) for name in (os.listdir(source_dir) if source_dir.is_dir() else ()))
    return max((int(found[1]) for found in names if found), default=0) + 1


@dataclass(frozen=True, slots=True)
class Partial:
    """A generation being written. `adopted` names the interrupted run it continues, or is empty; `released` see
    `take_over`.
    """

    path: Path
    adopted: str = ""
    released: int = 0

    @property
    def tree(self) -> Path:
        """Where rsync writes."""
        return self.path / TREE


def take_over(source_dir: Path, attempt: str) -> Partial:
    """Make `.partial-<attempt>` out of the newest that interrupted runs left, or anew; other leftovers are removed.

    The caller holds the host's lock, so that no partial is being written: it need not be asked whose it was or by which
    pid. Files that share an inode with anything are removed from an adopted tree (`released` counts them): rsync would
    set new owners, modes and xattrs on the shared inode and so alter an older generation (rsync(1), --link-dest); it
    links unchanged ones again at the cost of a look. Raises OSError, LayoutError.
    """
    if not _ATTEMPT.fullmatch(attempt):
        raise LayoutError(f"The attempt {encode_name(attempt)} cannot be part of a folder name.")
    root = source_dir.parents[1]
    require_inside(root, source_dir)
    source_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    mine, found = source_dir / f"{PARTIAL}{attempt}", _partials(source_dir)
    left = [path for path in found if path.is_dir() and not path.is_symlink()]
    for old in found:
        if old not in left[-1:]:
            discard(old, root)
    if not left:
        (mine / TREE).mkdir(mode=0o700, parents=True)
        return Partial(mine)
    newest = left[-1]
    if newest != mine:
        newest.rename(mine)
    _unseal(mine)
    (mine / TREE).mkdir(mode=0o700, exist_ok=True)
    return Partial(mine, newest.name.removeprefix(PARTIAL), _release_shared(mine / TREE))


def _partials(source_dir: Path) -> list[Path]:
    found = [path for path in source_dir.iterdir() if path.name.startswith(PARTIAL)]
    return sorted(found, key=lambda path: (path.lstat().st_mtime_ns, path.name))


def _unseal(partial: Path) -> None:
    for path in list(partial.iterdir()):
        if path.name != TREE:
            discard(path, partial.parents[2])


def _release_shared(tree: Path) -> int:
    released = 0
    for folder, names in _folders(os.fsencode(tree)):
        for name in names:
            path = folder + b"/" + name
            found = os.lstat(path)
            if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                os.unlink(path)
                released += 1
    return released


def _folders(top: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    pending = [top]
    while pending:
        folder = pending.pop()
        open_up(folder)
        names = os.listdir(folder)
        paths = [folder + b"/" + name for name in names]
        pending.extend(path for path in paths if stat.S_ISDIR(os.lstat(path).st_mode))
        yield folder, names


def seal(
    partial: Partial,
    info: GenerationInfo,
    checksums: Mapping[bytes, str],
    previous: Path | None,
    *,
    hash_here_bytes: int = 0,
    check: Callable[[], None] = no_tick,
) -> tuple[GenerationInfo, Totals]:
    """Write the manifest and generation.json into a finished partial and return what was written.

    A partial promises nothing: `publish` syncs all of it at once before the rename. What rsync wrote is sent to the
    disk meanwhile, so that less is left to wait for then. `previous` is the previous good generation's folder,
    `checksums` and `check` see `manifest.write_manifest`. Raises OSError.
    """
    old = previous / MANIFEST if previous is not None else None
    (partial.path / MANIFEST).unlink(missing_ok=True)
    with sync_ahead(partial.path, check):
        totals = write_manifest(
            partial.tree,
            checksums,
            old,
            partial.path / MANIFEST,
            hash_here_bytes=hash_here_bytes,
            fake_super=info.fake_super,
            check=check,
        )
    whole = replace(info, files=totals.files, dirs=totals.dirs, bytes=totals.bytes, with_checksum=totals.with_checksum)
    (partial.path / INFO).write_bytes(whole.to_json())
    return whole, totals


def publish(partial: Partial, final: Path, on_step: Callable[[str], None] = _nothing) -> Path:
    """Sync the filesystem, rename a sealed partial to its name and sync the folder. Returns `final`.

    `on_step` is called with sync, rename, sync_folder and done before each step. Raises LayoutError when the name
    exists or the partial is not sealed, OSError when the disk is full or failing; then nothing was renamed.
    """
    if not _GENERATION.fullmatch(final.name) or final.parent != partial.path.parent:
        raise LayoutError(f"{encode_name(final.name)} is not the name of a generation beside its partial.")
    if not (partial.path / INFO).is_file() or not (partial.path / MANIFEST).is_file():
        raise LayoutError(f"{partial.path.name} has no manifest yet; it cannot be published.")
    on_step("sync")
    sync_filesystem(partial.path)
    on_step("rename")
    if os.path.lexists(final):
        raise LayoutError(f"The generation {final.name} exists already; it was not replaced.")
    partial.path.rename(final)
    on_step("sync_folder")
    sync_folder(final.parent)
    on_step("done")
    return final


def trash(generation: Path, root: Path | None = None, tick: Callable[[], None] = no_tick) -> int:
    """Rename a generation or partial into `<root>/.trash` and remove it there; returns how many files and folders went.

    The root is found from the place in the layout unless given. `tick` is called per entry and may raise to stop;
    `empty_trash` goes on later. Raises LayoutError for anything else than a generation or partial, PathRefused,
    OSError.
    """
    if not _GENERATION.fullmatch(generation.name) and not generation.name.startswith(PARTIAL):
        raise LayoutError(f"{encode_name(os.fspath(generation))} is not a generation; it was not removed.")
    return discard(generation, root or generation.parents[2], tick)
