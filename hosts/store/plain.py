"""Small files on a disk that anybody may have written to: only regular ones are opened, and none without a bound."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from hosts.store.paths import StoreError, encode_name

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 4 << 20  # bytes


class NotPlain(StoreError):
    """Something else lies in a file's place; the text is one plain sentence."""


def read_plain(path: Path, most: int = LARGEST) -> bytes:
    """The content of a regular file of at most `most` bytes. Raises NotPlain, OSError.

    A pipe in its place would be waited for, a device would do what opening it does.
    """
    require_plain(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as handle:
        _require_regular(os.fstat(descriptor).st_mode, path)
        data = handle.read(most + 1)
    if len(data) > most:
        raise NotPlain(f"{encode_name(path.name)} is damaged: it has more than {most >> 20} MiB.")
    return data


def require_plain(path: Path) -> None:
    """Raises NotPlain for a link, a folder, a pipe or a device, OSError when nothing is there."""
    _require_regular(path.lstat().st_mode, path)


def _require_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        raise NotPlain(f"{encode_name(path.name)} is damaged: it is no regular file.")
