"""The passphrase of archives: the first line of a file that only its owner can read."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from django.conf import settings

from jobs.models import Failure
from piherder.archive.errors import ArchiveError, of_system

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 1000  # bytes
SETTING = "PIHERDER_ARCHIVE_PASSPHRASE_FILE"


def configured() -> bytes | None:
    """The passphrase of this installation's archives, None when they are not encrypted. Raises ArchiveError."""
    path: Path | None = settings.PIHERDER_ARCHIVE_PASSPHRASE_FILE
    return read(path) if path else None


def read(path: Path) -> bytes:
    """The passphrase in `path`. Raises ArchiveError in words that never hold it."""
    try:
        with path.open("rb") as handle:
            mode = stat.S_IMODE(path.stat().st_mode)
            line = handle.readline(LONGEST + 2).rstrip(b"\r\n")
    except OSError as error:
        raise of_system(error, f"The passphrase file {path}") from error
    if mode & 0o077:
        raise ArchiveError(f"Others can read the passphrase file {path}: chmod 600 {path}", Failure.REFUSED)
    return checked(line, str(path))


def checked(line: bytes, where: str) -> bytes:
    """A passphrase that gpg takes as it is. Raises ArchiveError."""
    if not line or len(line) > LONGEST or b"\x00" in line:
        text = f"The first line of {where} must be the passphrase: 1 to {LONGEST} characters."
        raise ArchiveError(text, Failure.REFUSED)
    return line
