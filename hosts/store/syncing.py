"""What is written reaches the disk: at once, or begun while something else is done."""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hosts.store.trash import no_tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_TICK = 0.25  # seconds between two calls of check()


def sync_filesystem(path: Path) -> None:
    """syncfs(2): all data and names of the filesystem that holds `path`, and of no other. Raises OSError, also for
    earlier write errors.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fspath(path))
    finally:
        os.close(descriptor)


@contextmanager
def sync_ahead(path: Path, check: Callable[[], None] = no_tick) -> Iterator[None]:
    """`sync_filesystem` beside the block; what the block writes still needs one of its own.

    Waits for its end and raises its OSError: a write error is told once, so the next sync would not know of it. `check`
    is called while it waits and may raise to stop; then, and when the block fails, nothing is waited for.
    """
    failed: list[OSError] = []

    def sync() -> None:
        try:
            sync_filesystem(path)
        except OSError as error:
            failed.append(error)

    beside = threading.Thread(target=sync, name="sync-ahead", daemon=True)
    beside.start()
    yield
    while beside.is_alive():
        beside.join(_TICK)
        check()
    if failed:
        raise failed[0]
