"""Backup roots as the database knows them: which one a host uses, and whether it may be written now."""

from __future__ import annotations

import errno
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import timezone

from hosts.models import BackupRoot
from hosts.store import root as disk
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import JobFailed

if TYPE_CHECKING:
    from hosts.models import Host

LEAST_BYTES = 64 << 20
LEAST_INODES = 1000
FULL = (errno.ENOSPC, errno.EDQUOT)


def root_of(host: Host) -> BackupRoot:
    """The host's backup root, or the default one. Raises JobFailed when there is none."""
    found = host.backup_root or patiently(lambda: BackupRoot.objects.filter(is_default=True).first())
    if found is None:
        raise JobFailed("There is no backup root: add one with `./herder backup_root --add PATH --default`.")
    return found


def mounted(root: BackupRoot) -> Path:
    """The root's folder, if its marker is there. Raises JobFailed (not_mounted) otherwise; nothing was written then."""
    state = disk.check(Path(root.path), settings.PIHERDER_INSTALL_ID, root.marker.hex)
    if not state.usable:
        raise JobFailed(state.problem, Failure.NOT_MOUNTED)
    return state.path


def require_space(folder: Path) -> None:
    """Raises JobFailed (no_space) when too little is free to begin."""
    problem = disk.too_little_space(disk.space_left(folder), LEAST_BYTES, LEAST_INODES)
    if problem:
        raise JobFailed(problem, Failure.NO_SPACE)


def require_able(root: BackupRoot, folder: Path) -> None:
    """Probe the root anew: another filesystem may be mounted there now, or the same one read-only.

    It is closed to rsync, and what it can do is stored when that changed. Raises JobFailed for one that cannot hold
    generations or be written.
    """
    try:
        found = disk.probe(folder)
        disk.close(folder, root.marker.hex)
    except disk.RootUnusable as unusable:
        code = Failure.NO_SPACE if getattr(unusable.__cause__, "errno", None) in FULL else Failure.ERROR
        raise JobFailed(str(unusable), code) from unusable
    if found.refusals():
        raise JobFailed(f"{root.path}: {found.refusals()[0]}", Failure.REFUSED)
    values = asdict(found)
    if _features(values) != _features(root.capabilities):
        row = BackupRoot.objects.filter(pk=root.pk)
        patiently(lambda: row.update(capabilities=values, probed_at=timezone.now()))


def _features(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Without what changes from hour to hour."""
    return {name: value for name, value in capabilities.items() if not name.startswith("free_")}
