"""Adding backup roots and saying how they are."""

from __future__ import annotations

import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from hosts.models import BackupRoot
from hosts.store import root as disk
from hosts.store.paths import normalise
from hosts.store.root import RootUnusable


@dataclass(frozen=True, slots=True)
class RootView:
    """A root as it is now; `problem` is "" while it may be written to, free numbers are None where unknown."""

    path: str
    is_default: bool
    problem: str
    free_bytes: int | None
    free_inodes: int | None
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {**asdict(self), "usable": not self.problem, "notes": list(self.notes)}


def add_root(path: Path, *, default: bool = False) -> BackupRoot:
    """Mark a folder as a backup root and store it; one that is stored already is only probed again.

    The first root becomes the default one. A disk that was mounted elsewhere before keeps its row, which gets the new
    path. Raises RootUnusable or PathRefused in words.
    """
    place = normalise(os.fspath(path))
    if not Path(place).is_dir():
        raise RootUnusable(f"The backup root {place} is not a folder: create it, or mount its disk first.")
    found = disk.probe(Path(place))
    if found.refusals():
        raise RootUnusable(found.refusals()[0])
    row = BackupRoot.objects.filter(path=place).first() or BackupRoot(path=place)
    marker = disk.create_marker(Path(place), settings.PIHERDER_INSTALL_ID, row.marker.hex)
    if marker != row.marker.hex:
        row = _row_of_disk(uuid.UUID(marker), row)
    row.path, row.capabilities, row.probed_at = place, asdict(found), timezone.now()
    with transaction.atomic():
        BackupRoot.objects.filter(path=place).exclude(pk=row.pk).delete()
        if default or not BackupRoot.objects.filter(is_default=True).exists():
            make_default(row)
        row.save()
    return row


def _row_of_disk(marker: uuid.UUID, here: BackupRoot) -> BackupRoot:
    """The row for the disk with this marker, mounted where `here` has another. Raises RootUnusable."""
    if here.pk and (here.generations.exists() or here.hosts.exists()):
        raise RootUnusable(f"Another backup disk is mounted at {here.path}: mount the right one, or this elsewhere.")
    known = BackupRoot.objects.filter(marker=marker).first()
    if known is None:
        here.marker = marker
        return here
    if disk.check(Path(known.path), settings.PIHERDER_INSTALL_ID, marker.hex).usable:
        raise RootUnusable(
            f"{here.path} is the disk of the backup root {known.path}, or a copy of it: use that, or remove the copy's "
            f"{disk.MARKER}."
        )
    return known


def make_default(row: BackupRoot) -> None:
    """Let a row that is about to be stored be the default one, which no other is any longer; in a transaction."""
    BackupRoot.objects.filter(is_default=True).exclude(pk=row.pk).update(is_default=False)
    row.is_default = True


def view(row: BackupRoot) -> RootView:
    """How a root is now; writes nothing."""
    state = disk.check(Path(row.path), settings.PIHERDER_INSTALL_ID, row.marker.hex)
    space = _space(row) if state.usable else disk.Space(None, None)
    problem = state.problem or disk.too_little_space(space, 64 << 20, 1000)
    return RootView(row.path, row.is_default, problem, space.free_bytes, space.free_inodes, notes(row.capabilities))


def _space(row: BackupRoot) -> disk.Space:
    try:
        return disk.space_left(Path(row.path))
    except OSError:
        return disk.Space(None, None)


def notes(capabilities: dict[str, Any]) -> tuple[str, ...]:
    """What the last probe found fault with: features that are lost, and a place that is a risk."""
    try:
        found = disk.Capabilities(**capabilities)
    except TypeError:  # never probed, or by another version
        return ()
    return (*found.lost_features(fake_super=os.geteuid() != 0), *found.warnings())
