"""The locks of a host's folder on the backup disk.

`.lock` is held by rsync and its children for as long as one of them lives; `.job.lock` by the process that works on
the folder. Both are flocks, so they end with their holders and outlive a Redis or a database that forgot everything.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hosts.store.paths import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COPY_LOCK, JOB_LOCK = ".lock", ".job.lock"


class FolderBusy(StoreError):
    """Another process works on the host's folder; the text is one plain sentence."""


@contextmanager
def _flocked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FolderBusy(f"Another copy works in {path.parent.name}'s backup folder on this server.") from None


@contextmanager
def host_folder(root: Path, host: str) -> Iterator[Path]:
    """The host's folder, made when it is not there, for this process alone and with no rsync left in it.

    Raises FolderBusy.
    """
    folder = root / host
    folder.mkdir(mode=0o700, exist_ok=True)
    with _flocked(folder / JOB_LOCK):
        with _flocked(folder / COPY_LOCK):
            pass  # nobody copies now, and while we hold the other lock nobody begins
        yield folder
