"""The folder in which the archives lie: whose it is, what is there, how one comes in and old ones go."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from hosts.store.root import sync_folder
from jobs.models import Failure
from piherder.archive.errors import ArchiveError, of_system
from piherder.archive.names import ArchiveName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARKER = "herder-archives.json"
PARTIAL = ".partial-herder-"


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive that was published whole."""

    path: Path
    name: ArchiveName
    size: int

    @property
    def key_inside(self) -> bool:
        """Whether the master key is in it: a plain archive never holds it, an encrypted one always does."""
        return self.name.encrypted


def archives(folder: Path) -> list[Archive]:
    """What is there, newest first; nothing when the folder cannot be read. Other files are passed over."""
    found = []
    try:
        for entry in os.scandir(folder):
            name = ArchiveName.parse(entry.name)
            if name and entry.is_file(follow_symlinks=False):
                found.append(Archive(folder / entry.name, name, entry.stat(follow_symlinks=False).st_size))
    except OSError:
        return []
    return sorted(found, key=lambda each: each.name.sequence, reverse=True)


def has_marker(folder: Path) -> bool:
    """True when the folder was begun by an installation; False also while its disk is not mounted."""
    return (folder / MARKER).is_file()


def owner(folder: Path) -> str:
    """Id of the installation whose archives lie here; "" when nobody began the folder. Raises OSError."""
    try:
        return str(json.loads((folder / MARKER).read_text(encoding="utf-8"))["install_id"])
    except FileNotFoundError:
        return ""
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def enter(folder: Path, install_id: str) -> None:
    """Make the folder ours (mode 0700) or find it ours.

    Raises ArchiveError when another installation keeps its archives there: ours would push them out.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        found = owner(folder)
    except OSError as error:
        raise of_system(error, folder) from error
    if not found:
        claim(folder, install_id)
    elif found != install_id:
        raise ArchiveError(
            f"{folder} holds the archives of another installation: bring one of them back with "
            "./herder herder_restore, or choose another folder with PIHERDER_ARCHIVES.",
            Failure.REFUSED,
        )


def claim(folder: Path, install_id: str) -> None:
    """Write the marker, whoever had the folder before. Raises ArchiveError."""
    text = json.dumps({"format": 1, "install_id": install_id}) + "\n"
    with new_file(folder, MARKER) as handle:
        handle.write(text.encode())
    publish(folder, MARKER)


def partial_of(folder: Path, name: str) -> Path:
    """Where a file lies until it is published."""
    return folder / f"{PARTIAL}{name}"


@contextmanager
def new_file(folder: Path, name: str) -> Iterator[IO[bytes]]:
    """The partial of `name`, mode 0600, on the disk when the block ends, gone when it fails. Raises ArchiveError."""
    partial = partial_of(folder, name)
    try:
        partial.unlink(missing_ok=True)
        with private_file(partial) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise of_system(error, folder / name) from error
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def only_whole(folder: Path, name: str) -> Iterator[Path]:
    """The partial of `name`; it is gone when the block ends without having published it."""
    partial = partial_of(folder, name)
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def private_file(path: Path) -> IO[bytes]:
    """A new file for its owner alone, whatever the umask. Raises OSError, also when something is there."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")


def publish(folder: Path, name: str) -> Path:
    """Give a complete partial its name; the folder is on the disk when this returns. Raises ArchiveError."""
    final = folder / name
    try:
        partial_of(folder, name).rename(final)
        sync_folder(folder)
    except OSError as error:
        raise of_system(error, final) from error
    return final


def remove_leftovers(folder: Path, of: str = "") -> int:
    """Remove what killed runs left unfinished, of those whose name goes on with `of`; returns how many."""
    left = list(folder.glob(f"{PARTIAL}{of}*"))
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return len(left)


def prune(folder: Path, keep: int) -> list[str]:
    """Remove all but the newest `keep` archives; returns their names. Raises ArchiveError."""
    going = archives(folder)[max(1, keep) :]
    try:
        for archive in going:
            archive.path.unlink(missing_ok=True)
        sync_folder(folder)
    except OSError as error:
        raise of_system(error, folder) from error
    return [archive.path.name for archive in going]


def sync_file(path: Path) -> None:
    """Wait until a file's content is on the disk. Raises OSError."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
