"""Bringing the rows of generations and what lies on a backup disk together: after the herder itself was restored, on a
new installation, or when a disk came back.

Names and records on the disk are data that anybody may have written: what does not fit is passed over in words, and
nothing on the disk is changed but the marker of a root that is taken over. Everything may be repeated.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q

from hosts import generations
from hosts.former import former_ids
from hosts.models import BackupRoot, Generation, GenerationStatus, Host, Source
from hosts.root_admin import add_root
from hosts.sound import unsound
from hosts.store import root as disk
from hosts.store.layout import list_generations, source_folder_name
from hosts.store.lock import host_folder
from hosts.store.paths import StoreError, decode_name, encode_name, normalise
from hosts.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from hosts.store.layout import GenerationInfo, StoredGeneration

PLAIN_FOLDERS = frozenset({"lost+found"})


@dataclass(frozen=True, slots=True)
class Shelf:
    """One source on the disk: how many generations were attached now, and how many had their rows already."""

    host: str
    source: str
    attached: int
    there: int
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Adopted:
    """What one root holds. `lines` are plain sentences for people; the numbers count generations but `sources`, the
    sources made now. With a dry run they are what would be done.

    `missing` have rows and no folder, `unknown` belong to hosts that the database does not know, `passed_over` were
    left as they are for the reasons that the lines give.
    """

    lines: list[str]
    attached: int
    missing: int
    unknown: int
    there: int = 0
    sources: int = 0
    passed_over: int = 0
    shelves: tuple[Shelf, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing is left that a person should look at."""
        return not (self.missing or self.unknown or self.passed_over)


@dataclass(slots=True)
class _Tally:
    root: BackupRoot
    dry_run: bool
    trust_names: bool
    ours: frozenset[str]
    lines: list[str] = field(default_factory=list)
    shelves: list[Shelf] = field(default_factory=list)
    missing: int = 0
    unknown: int = 0
    passed_over: int = 0

    def pass_over(self, what: str, why: str, number: int = 1) -> None:
        self.lines.append(f"{what} was passed over: {why}")
        self.passed_over += number

    def counted(self) -> Adopted:
        attached, there = (sum(getattr(shelf, name) for shelf in self.shelves) for name in ("attached", "there"))
        made = sum(shelf.is_new for shelf in self.shelves)
        numbers = (attached, self.missing, self.unknown, there, made, self.passed_over)
        return Adopted(self.lines, *numbers, tuple(self.shelves))


def adopt(
    root: BackupRoot,
    *,
    dry_run: bool = False,
    foreign: bool = False,
    forget: bool = False,
    trust_names: bool = False,
) -> Adopted:
    """Attach what lies on a root to the hosts and sources it came from, and say which rows have nothing on it.

    `foreign` takes over a root that another installation marked, `trust_names` takes what another one made of a host
    for ours when no more than its name says so, `forget` deletes the rows whose folder is gone unless
    they are kept for ever. A host that a backup works on is passed over. A source that is made for a generation is
    switched off: what is backed up is a person's choice. Raises RootUnusable in words, OSError.
    """
    folder = _usable(root, foreign=foreign, dry_run=dry_run)
    tally = _Tally(root, dry_run, trust_names, former_ids() | {settings.PIHERDER_INSTALL_ID})
    for place in _folders(folder):
        _adopt_host(place, tally)
    if root.pk:
        _note_missing(tally, forget=forget)
    return tally.counted()


def taken_root(path: Path, *, dry_run: bool) -> BackupRoot:
    """The row for a root that another installation marked and this one does not know; not stored in a dry run.

    Raises RootUnusable or PathRefused in words, OSError.
    """
    row = BackupRoot(path=normalise(os.fspath(path)))
    _usable(row, foreign=True, dry_run=dry_run)
    return row if dry_run else add_root(Path(row.path))


def _usable(root: BackupRoot, *, foreign: bool, dry_run: bool) -> Path:
    """The root's folder with our marker on it. Raises RootUnusable."""
    folder, mine = Path(root.path), settings.PIHERDER_INSTALL_ID
    state = disk.check(folder, mine, root.marker.hex if root.pk else None)
    if not state.install_id or state.install_id == mine:
        state.require()
        return folder
    if state.install_id in former_ids() and root.pk:
        disk.check(folder, state.install_id, root.marker.hex).require()
    elif not foreign:
        raise disk.RootUnusable(
            f"The backup root {encode_name(root.path)} belongs to another installation: when that one is gone, take "
            "its generations over with --from-other-installation."
        )
    if not dry_run:
        marker = {"format": 1, "install_id": mine, "root_id": root.marker.hex}
        disk.write_durably(folder / disk.MARKER, json.dumps(marker).encode() + b"\n")
    return folder


def _folders(parent: Path) -> list[Path]:
    """The folders in it that are neither links nor hidden, by name."""
    with os.scandir(parent) as found:
        names = [each.name for each in found if each.is_dir(follow_symlinks=False) and not each.name.startswith(".")]
    return [parent / name for name in sorted(names) if name not in PLAIN_FOLDERS]


def _adopt_host(place: Path, tally: _Tally) -> None:
    shown = encode_name(place.name)
    host = Host.objects.filter(name=place.name).first() if shown == place.name else None
    try:
        if host is None:
            _note_unknown(place, tally)
            return
        with _held(place, dry_run=tally.dry_run):
            for folder in _folders(place):
                _adopt_folder(host, folder, tally)
    except (StoreError, OSError) as trouble:
        tally.pass_over(shown, str(trouble))


@contextmanager
def _held(place: Path, *, dry_run: bool) -> Iterator[None]:
    """The folder for us alone; a dry run looks without a lock, so that it writes nothing. Raises FolderBusy."""
    if dry_run:
        yield
        return
    with host_folder(place.parent, place.name):
        yield


def _note_unknown(place: Path, tally: _Tally) -> None:
    found = sum(len(list_generations(folder)) for folder in _folders(place))
    if found:
        tally.unknown += found
        tally.lines.append(
            f"Unknown host {encode_name(place.name)}: {count(found, 'generation')}; add the host with that name and "
            "run it again."
        )


def _adopt_folder(host: Host, folder: Path, tally: _Tally) -> None:
    """Attach the generations of one folder, which are those of one source unless somebody mixed them."""
    sound: dict[str, list[tuple[StoredGeneration, GenerationInfo]]] = {}
    for found in list_generations(folder):
        problem = unsound(found, host.name)
        if found.info is None or problem:
            tally.pass_over(f"{host.name}/{encode_name(folder.name)}/{found.path.name}", problem)
        else:
            sound.setdefault(found.info.source, []).append((found, found.info))
    for path, group in sound.items():
        try:
            _attach(source_for(host, path, folder.name), group, tally)
        except StoreError as mismatch:
            tally.pass_over(f"{host.name}/{encode_name(folder.name)}", str(mismatch), len(group))
        except IntegrityError:
            tally.pass_over(f"{host.name} {path}", "its rows changed meanwhile; run it again.", len(group))


def source_for(host: Host, path: str, folder: str) -> Source:
    """The host's source of this path, with this folder; not stored, and switched off, where there is none.

    Raises StoreError when path and folder do not belong together: a row for it would lead nowhere.
    """
    there = host.sources.select_related("host").filter(Q(path=path) | Q(folder=folder)).order_by("pk")
    exact = there.filter(path=path, folder=folder).first()
    other = there.first()
    if exact is not None:
        return exact
    if other is not None:
        raise StoreError(
            f"it says that it holds {path}, but {host.name} keeps {other.path} in {encode_name(other.folder)}."
        )
    meant = source_folder_name(decode_name(path))
    if meant != folder:
        raise StoreError(f"it says that it holds {path}, which would lie in {meant}.")
    return Source(host=host, path=path, folder=folder, enabled=False, one_file_system=path == "/")


def _attach(source: Source, group: Sequence[tuple[StoredGeneration, GenerationInfo]], tally: _Tally) -> None:
    """Raises IntegrityError when somebody else made rows meanwhile; then nothing was stored."""
    rows = {row.sequence: row for row in _rows(source)}
    is_new, there = not source.pk, 0
    fresh: dict[int, GenerationInfo] = {}
    back: list[tuple[Generation, GenerationInfo]] = []
    for found, info in group:
        row = rows.get(found.sequence)
        why = _clash(row, found, tally.root, fresh) or ("" if row else _stranger(source.host, info, tally))
        if why:
            tally.pass_over(f"{source} {found.path.name}", why)
        elif row is None:
            fresh[found.sequence] = info
        elif _is_attached(row, tally.root):
            there += 1
        else:
            back.append((row, info))
    if not tally.dry_run:
        _store(source, tally.root, list(fresh.values()), back)
    _tell(Shelf(source.host.name, source.path, len(fresh) + len(back), there, is_new and bool(fresh)), tally)


def _stranger(host: Host, info: GenerationInfo, tally: _Tally) -> str:
    """Why what another installation made may be of another machine; "" where it is ours, or of one that we know."""
    if tally.trust_names or info.install_id in tally.ours:
        return ""
    if not host.keys.filter(fingerprint__in=info.host_keys).exists():
        return (
            f"another installation made it of a host that is no more than called {host.name}, too; if that is the same "
            "machine, add --trust-names."
        )
    return ""


def _rows(source: Source) -> list[Generation]:
    return list(source.generations.select_related("root", "source__host")) if source.pk else []


def _clash(row: Generation | None, found: StoredGeneration, root: BackupRoot, fresh: dict[int, GenerationInfo]) -> str:
    """Why a folder cannot have a row of its own; "" when it can, or has it."""
    if found.sequence in fresh or (row is not None and row.folder != found.path.name):
        return f"another generation has the number {found.sequence}."
    if row is not None and row.root_id != root.pk and row.path.is_dir():
        return f"it is kept at {row.root} as well."
    return ""


def _is_attached(row: Generation, root: BackupRoot) -> bool:
    settled = row.status == GenerationStatus.DELETING or row.root_id == root.pk
    return settled and row.status != GenerationStatus.WRITING and row.verify_problem != generations.GONE


def _store(
    source: Source,
    root: BackupRoot,
    fresh: Sequence[GenerationInfo],
    back: Sequence[tuple[Generation, GenerationInfo]],
) -> None:
    with transaction.atomic():
        if fresh and not source.pk:
            source.save()
        Generation.objects.bulk_create([_row(source, root, info) for info in fresh])
        for row, info in back:
            Generation.objects.filter(pk=row.pk).update(root=root)
            Generation.objects.filter(pk=row.pk, verify_problem=generations.GONE).update(verify_problem="")
            generations.mark_good(row, info)
        if fresh:
            _move_dates(source, max(info.finished for info in fresh))


def _row(source: Source, root: BackupRoot, info: GenerationInfo) -> Generation:
    return Generation(
        source=source,
        root=root,
        sequence=info.sequence,
        folder=info.folder_name,
        status=GenerationStatus.GOOD,
        started_at=info.started,
        finished_at=info.finished,
        files=info.files,
        bytes=info.bytes,
        changed_files=info.changed,
        rsync_code=info.rsync_code,
        warnings=list(info.warnings),
        fake_super=info.fake_super,
    )


def _move_dates(source: Source, newest: datetime) -> None:
    """The dates of the last good backup move forward, never back."""
    older = Q(last_good_at__isnull=True) | Q(last_good_at__lt=newest)
    Source.objects.filter(older, pk=source.pk).update(last_good_at=newest)
    older = Q(last_backup_at__isnull=True) | Q(last_backup_at__lt=newest)
    Host.objects.filter(older, pk=source.host_id).update(last_backup_at=newest)


def _tell(shelf: Shelf, tally: _Tally) -> None:
    tally.shelves.append(shelf)
    if shelf.attached:
        verb = "would be attached" if tally.dry_run else "attached"
        made = "; the source is new here and switched off" if shelf.is_new else ""
        tally.lines.append(f"{shelf.host} {shelf.source}: {count(shelf.attached, 'generation')} {verb}{made}.")


def _note_missing(tally: _Tally, *, forget: bool) -> None:
    """Rows of this root without a folder; they count for nothing until their folders are back."""
    good = Generation.objects.filter(root=tally.root, status=GenerationStatus.GOOD).select_related(
        "source__host", "root"
    )
    for row in good.order_by("source__host__name", "source__path", "sequence"):
        if row.path.is_dir():
            continue
        mine = Generation.objects.filter(pk=row.pk, status=GenerationStatus.GOOD)
        if forget and row.kept_at is None:
            tally.lines.append(f"{row.source} {row.folder}: its folder is gone, and its row with it.")
            if not tally.dry_run:
                mine.delete()
            continue
        tally.missing += 1
        tally.lines.append(f"{row.source} {row.folder}: {generations.GONE[0].lower()}{generations.GONE[1:]}")
        if not tally.dry_run:
            mine.update(verify_problem=generations.GONE)


def root_at(path: Path) -> BackupRoot | None:
    """The row of the backup root at a path. Raises PathRefused."""
    return BackupRoot.objects.filter(path=normalise(os.fspath(path))).first()
