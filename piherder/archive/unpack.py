"""From an archive to checked files in a private folder. Nothing of it is used before all of it is proven."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from hosts.words import size
from jobs.models import Failure
from piherder.archive import gpg, pack, sqlite
from piherder.archive.errors import ArchiveError, no_space, of_system
from piherder.archive.shelf import private_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from piherder.archive.manifest import Manifest

TAR_MAGIC = slice(257, 262)
OPENPGP = 0x80  # set in the first byte of every OpenPGP packet (RFC 9580, 4.2)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An archive that proved whole, and its members' files by name."""

    manifest: Manifest
    files: dict[str, Path]

    def text(self, name: str) -> str:
        """A site file's content, "" when the archive does not hold it. Raises OSError."""
        return self.files[name].read_text(encoding="utf-8").strip() if name in self.files else ""


def is_encrypted(path: Path) -> bool:
    """By its content, whatever its name. Raises ArchiveError for a file that is neither."""
    try:
        with path.open("rb") as handle:
            head = handle.read(512)
    except OSError as error:
        raise of_system(error, path) from error
    if head[TAR_MAGIC] == b"ustar":
        return False
    if head and head[0] & OPENPGP:
        return True
    raise ArchiveError(f"{path} is no archive of PiHerder.", Failure.REFUSED)


def unpack(path: Path, passphrase: bytes | None, folder: Path, tick: Callable[[], None]) -> Unpacked:
    """Everything in the archive, proven, in `folder`. Raises ArchiveError."""
    try:
        with _opened(path, passphrase, folder / "gnupg", tick) as source:
            found = pack.read_manifest(source)
            require_room(found, folder)
            return Unpacked(found, pack.read_members(source, found, folder, tick))
    except OSError as error:
        raise of_system(error, path) from error


@contextmanager
def _opened(path: Path, passphrase: bytes | None, home: Path, tick: Callable[[], None]) -> Iterator[IO[bytes]]:
    locked = is_encrypted(path)
    if locked and passphrase is None:
        raise ArchiveError("The archive is encrypted: name its passphrase with --passphrase-file.", Failure.REFUSED)
    with path.open("rb") as source, gpg.opened(source, passphrase if locked else None, home, tick) as plain:
        yield plain


def require_room(found: Manifest, folder: Path) -> None:
    """Refuse before anything is written what cannot fit. Raises ArchiveError."""
    need = sum(member.size for member in found.members) + found.database.unpacked
    free = shutil.disk_usage(folder).free
    if need > free:
        raise ArchiveError(f"{no_space(folder)} {size(need)} are needed, {size(free)} are free.", Failure.NO_SPACE)


def database_file(unpacked: Unpacked, folder: Path, tick: Callable[[], None]) -> Path:
    """The database ready to be put in place: a checked SQLite file, or the dump. Raises ArchiveError."""
    packed = unpacked.files[unpacked.manifest.dump]
    if unpacked.manifest.database.engine != "sqlite":
        return packed
    goal = folder / "database.sqlite3"
    try:
        with private_file(goal) as handle:
            sqlite.expand(packed, handle, unpacked.manifest.database.unpacked, tick)
    except OSError as error:
        raise of_system(error, goal) from error
    sqlite.check(goal, "in the archive")
    return goal
