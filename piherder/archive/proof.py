"""What a new archive must show before it counts: read back from its disk it is what was packed, and its dump opens."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from piherder.archive import gpg, pack, postgres, sqlite
from piherder.archive.errors import ArchiveError, of_system

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from piherder.archive.manifest import Manifest


def prove(partial: Path, secret: bytes | None, plain: Path, found: Manifest, tick: Callable[[], None]) -> None:
    """Read an archive that lies on the disk under a name not its own yet, as a restore would.

    `plain` is the folder with the dump that was packed. Raises ArchiveError; older archives are untouched then.
    """
    try:
        with partial.open("rb") as source:
            forget(source)
            with gpg.opened(source, secret, plain / "gnupg", tick) as opened:
                _compare(opened, found, tick)
        _open_dump(plain / found.dump, found, tick)
    except OSError as error:
        raise of_system(error, partial.parent) from error
    except ArchiveError as error:
        raise ArchiveError(
            f"The new archive does not read back from {partial.parent} as it was made ({str(error).rstrip('.')}): look "
            "at that disk; the older archives are untouched.",
            error.code,
        ) from error


def _compare(source: IO[bytes], found: Manifest, tick: Callable[[], None]) -> None:
    if pack.read_manifest(source) != found:
        raise ArchiveError("its manifest is another one")
    pack.prove_members(source, found, tick)


def forget(file: IO[bytes]) -> None:
    """Let the kernel drop what it still knows of a file that is on its disk, so that the disk answers."""
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _open_dump(dumped: Path, found: Manifest, tick: Callable[[], None]) -> None:
    """The database's own look at what was packed; its digest is in the manifest."""
    if found.database.engine != "sqlite":
        postgres.listing(found.database.tool, dumped, tick)
        return
    with open(os.devnull, "wb") as nowhere:
        sqlite.expand(dumped, nowhere, found.database.unpacked, tick)
