"""Backup roots as the database knows them: which one a host uses, and whether it may be written now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from hosts.models import BackupRoot
from hosts.store import root as disk
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import JobFailed

if TYPE_CHECKING:
    from hosts.models import Host

LEAST_BYTES = 64 << 20
LEAST_INODES = 1000


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
