"""The locks of a host's folder on the backup disk.

`.lock` is held by rsync and its children for as long as one of them lives; `.job.lock` by the process that works on
the folder. Both are flocks, so they end with their holders and outlive a Redis or a database that forgot everything.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from hosts.store.paths import StoreError, encode_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COPY_LOCK, JOB_LOCK = ".lock", ".job.lock"


class FolderBusy(StoreError):
    """Another process works on the host's folder; the text is one plain sentence."""


class FolderUnusable(StoreError):
    """The host's folder cannot be made or locked; the text is one plain sentence."""


@contextmanager
def _flocked(path: Path, *, reads: bool) -> Iterator[None]:
    descriptor = _opened(path, reads=reads)
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _opened(path: Path, *, reads: bool) -> int:
    """A read-only filesystem does not let a lock be opened for writing, and a flock does not need it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS or not reads:
            raise
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FolderBusy(f"Another copy works in {path.parent.name}'s backup folder on this server.") from None


@contextmanager
def host_folder(root: Path, host: str, *, reads: bool = False) -> Iterator[Path]:
    """The host's folder, made when it is not there, for this process alone and with no rsync left in it.

    With `reads` it may lie on a disk that can only be read. Raises FolderBusy, FolderUnusable.
    """
    folder = root / host
    with ExitStack() as held:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            held.enter_context(_flocked(folder / JOB_LOCK, reads=reads))
            with _flocked(folder / COPY_LOCK, reads=reads):
                pass  # nobody copies now, and while we hold the other lock nobody begins
        except OSError as error:
            place = encode_name(os.fspath(folder))
            raise FolderUnusable(f"The backup folder {place} cannot be locked: {error.strerror}.") from error
        yield folder
