"""Removing trees from a backup root: one rename into `<root>/.trash`, then entry by entry, to be gone on with at any
time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hosts.store.paths import StoreError, encode_name, require_inside
from hosts.store.root import TRASH, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def no_tick() -> None:
    """Called per entry where nobody wants to stop or count."""


def open_up(folder: bytes) -> None:
    """Let the owner list and change a folder; the source may have had it read-only. Its mode is set again by the next
    run.
    """
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(folder, mode | 0o700)


def discard(path: Path, root: Path, tick: Callable[[], None] = no_tick) -> int:
    """Rename anything inside the root into its trash and remove it there. Raises StoreError, OSError; see
    `layout.trash`.
    """
    require_inside(root, path.parent)
    gone = root / TRASH / f"{secrets.token_hex(8)}-{path.name}"
    gone.parent.mkdir(mode=0o700, exist_ok=True)
    if stat.S_ISDIR(path.lstat().st_mode):
        open_up(os.fsencode(path))
    try:
        path.rename(gone)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise StoreError(
            f"{encode_name(os.fspath(path))} is on another disk than its backup root; remove it by hand."
        ) from error
    sync_folder(path.parent)
    return _drain(os.fsencode(gone), tick)


def empty_trash(root: Path, tick: Callable[[], None] = no_tick) -> int:
    """Remove what interrupted removals left in `<root>/.trash`; returns how many files and folders went. Raises
    OSError.

    What another process is removing at this moment is left to it.
    """
    bin_ = os.fsencode(root / TRASH)
    names = os.listdir(bin_) if os.path.isdir(bin_) else []
    return sum(_drain(bin_ + b"/" + name, tick) for name in names)


def _drain(top: bytes, tick: Callable[[], None]) -> int:
    """Remove a tree of any depth and width without recursion: a folder inside a folder is moved up to `top` first."""
    removed = 0
    with _claimed(top) as mine:
        if not mine:
            return 0
        open_up(top)
        while names := os.listdir(top):
            for name in names:
                removed += _drain_one(top, name, tick)
        os.rmdir(top)
    return removed + 1


@contextmanager
def _claimed(top: bytes) -> Iterator[bool]:
    """Whether this process alone removes `top`; a single file is removed at once. The kernel frees the claim of a dead
    process.
    """
    try:
        descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except NotADirectoryError:
        os.unlink(top)
        yield False
        return
    except FileNotFoundError:
        yield False
        return
    try:
        yield _flocked(descriptor)
    finally:
        os.close(descriptor)


def _flocked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # NFS cannot lock a folder; there only this herder writes anyway
    return True


def _drain_one(top: bytes, name: bytes, tick: Callable[[], None]) -> int:
    """Remove one entry of `top`; folders found in it become entries of `top`."""
    path = top + b"/" + name
    tick()
    if not _is_folder(path):
        os.unlink(path)
        return 1
    open_up(path)
    removed, folders = 1, []
    for inner in os.listdir(path):
        tick()
        if _is_folder(path + b"/" + inner):
            folders.append(path + b"/" + inner)
        else:
            os.unlink(path + b"/" + inner)
            removed += 1
    for folder in folders:  # after the files: on a full disk a move may need the space they held
        open_up(folder)  # a move changes the folder's "..", which needs the right to write to it
        os.rename(folder, top + b"/up-" + secrets.token_hex(8).encode())
    os.rmdir(path)
    return removed


def _is_folder(path: bytes) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)
