"""What a restore replaces is kept aside first: the database, the site's files, logs of jobs that never were."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError, connection

from hosts.former import note_former
from hosts.store.syncing import sync_filesystem
from hosts.words import count
from jobs.models import Failure
from piherder.archive import postgres, shelf, site, sqlite
from piherder.archive.dump import server_major, sqlite_file
from piherder.archive.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE_FILES = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database


def no_tick() -> None:
    """Nobody cancels a restore: it ends by itself."""


def table_names() -> list[str]:
    """Tables of the database as it is now; none for a SQLite file that is not there. Raises DatabaseError."""
    if connection.vendor == "sqlite" and not sqlite_file().exists():
        return []
    try:
        return connection.introspection.table_names()
    finally:
        connection.close()


def holds_something() -> bool:
    """Whether there is a database to be kept aside; a damaged one counts."""
    try:
        return bool(table_names())
    except DatabaseError:
        return True


@dataclass(frozen=True, slots=True)
class Keeper:
    """Keeps aside what a restore replaces, and says where."""

    folder: Path
    moment: str
    say: Callable[[str], None]

    def database(self) -> None:
        """Copy the database as it is now, if there is one. Raises ArchiveError or OSError."""
        if holds_something():
            self.say(f"What was in the database is kept in {keep_aside(self.folder, self.moment)}.")

    def place(self, texts: dict[str, str], install_id: str) -> None:
        """Write the site files. Raises OSError.

        The id of this installation stays its own: were it that of the archive, the machine that the archive came from
        and this one would both take the same backup disks and archives for theirs. What `install_id` has marked is
        ours from now on.
        """
        shelf.claim(self.folder, settings.PIHERDER_INSTALL_ID)
        site.give(self.folder)
        site.give(self.folder / shelf.MARKER)
        if install_id != settings.PIHERDER_INSTALL_ID:
            site.give(note_former(install_id))
        for placed in filter(None, (site.put(name, text, self.moment) for name, text in texts.items())):
            self.say(f"{placed.path} is written." + (f" The earlier one is {placed.aside}." if placed.aside else ""))

    def logs(self, last: int) -> None:
        """Put aside the logs of jobs above `last`: their numbers will be given again. Raises OSError."""
        top = Path(settings.PIHERDER_LOGS)
        aside = top / f"before-{self.moment}"
        late = [path for path in top.glob("*/*") if number_of(path) > last]
        for path in late:
            (aside / path.parent.name).mkdir(mode=0o700, parents=True, exist_ok=True)
            path.rename(aside / path.parent.name / path.name)
        if late:
            for folder in (aside, *aside.iterdir()):
                site.give(folder)
            sync_filesystem(top)
            self.say(f"{count(len(late), 'log')} of jobs that the archive does not know: kept in {aside}.")


def number_of(log: Path) -> int:
    """Number of the job whose log this is, -1 for what is none."""
    name = log.name.partition(".")[0]
    return int(name) if name.isdecimal() and log.parent.name.isdecimal() else -1


def keep_aside(folder: Path, moment: str) -> Path:
    """A copy of the database as it is now; of a damaged one its files as they are. Raises ArchiveError or OSError."""
    ending = "sqlite3" if connection.vendor == "sqlite" else "pgdump"
    name = f"before-restore-{moment}.{ending}"
    partial = folder / f"{shelf.PARTIAL}{name}"
    if connection.vendor == "sqlite":
        try:
            sqlite.copy(sqlite_file(), partial, no_tick)
        except ArchiveError as error:
            if error.code == Failure.NO_SPACE:
                raise
            return keep_files(folder, name)
    else:
        postgres.dump(postgres.address(connection.settings_dict), server_major(), partial, no_tick)
        connection.close()
    partial.chmod(0o600)
    site.give(partial)
    shelf.sync_file(partial)
    return shelf.publish(folder, name)


def keep_files(folder: Path, name: str) -> Path:
    """The files of a damaged SQLite database as they are. Raises OSError."""
    for ending in ("", *SIDE_FILES):
        source = Path(f"{sqlite_file()}{ending}")
        if source.exists():
            shutil.copyfile(source, folder / f"{name}.damaged{ending}")
            (folder / f"{name}.damaged{ending}").chmod(0o600)
    return folder / f"{name}.damaged"
