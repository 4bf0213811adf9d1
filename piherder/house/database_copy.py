"""A copy of the whole database aside, and its way back; both run as the services' own user while no service runs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from hosts.store.root import sync_folder
from piherder.house.folder import Refused, make_private

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = {"sqlite": "db.sqlite3", "postgresql": "database.pgdump"}
ROOM = 1.2  # times the database's size that must be free before a copy is begun


def nothing() -> None:
    """No look is needed between two steps: whoever waits can end us."""


def enough_room(size: int, free: int) -> str:
    """Why `size` bytes cannot be copied with `free` bytes left, as one sentence; "" when they can."""
    if free >= size * ROOM:
        return ""
    need, there = (f"{number / 1e6:.0f} MB" for number in (size * ROOM, free))
    return f"A copy of the database needs {need}, and {there} are free: make room first."


def size() -> int:
    """Bytes of the database in use. Raises DatabaseError."""
    from django.db import connection

    if connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def copy(folder: Path) -> Path:
    """Copies the database into `folder`, which is made; returns the file, whole and synced.

    Raises Refused, ArchiveError.
    """
    from django.db import connection

    from piherder.archive import dump, postgres, sqlite

    make_private(folder)
    if reason := enough_room(size(), shutil.disk_usage(folder).free):
        raise Refused(reason)
    goal = folder / NAMES[connection.vendor]
    goal.unlink(missing_ok=True)
    if connection.vendor == "sqlite":
        sqlite.copy(Path(str(connection.settings_dict["NAME"])), goal, nothing)
    else:
        postgres.dump(postgres.address(connection.settings_dict), dump.server_major(), goal, nothing)
    sync(goal)
    return goal


def sync(path: Path) -> None:
    """Brings a file and its name to the disk."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
    sync_folder(path.parent)


def restore(source: Path) -> None:
    """Puts a copy in the place of the database: all of it or nothing. Raises Refused, ArchiveError."""
    from django.db import connection

    if source.name != NAMES[connection.vendor]:
        raise Refused(f"{source} is no copy of the database in use ({connection.vendor}).")
    if connection.vendor == "sqlite":
        restore_sqlite(source, Path(str(connection.settings_dict["NAME"])))
    else:
        from piherder.archive import dump, postgres

        postgres.replace_all(postgres.address(connection.settings_dict), dump.server_major(), source)


def restore_sqlite(source: Path, goal: Path) -> None:
    """Replaces the file; what SQLite keeps beside it belongs to the old one and goes first."""
    draft = goal.with_name(f".{goal.name}.back")
    shutil.copyfile(source, draft)
    draft.chmod(0o600)
    sync(draft)
    with closing(sqlite3.connect(goal, timeout=20)) as old:
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # a power cut from here on leaves the old database whole
    for suffix in ("-wal", "-shm"):
        goal.with_name(goal.name + suffix).unlink(missing_ok=True)
    draft.replace(goal)
    sync(goal)


def copy_main(arguments: list[str]) -> int:
    """`copy-database FOLDER`: prints the file."""
    return in_words(lambda: print(copy(Path(arguments[0]))))


def restore_main(arguments: list[str]) -> int:
    """`restore-database FILE`."""
    return in_words(lambda: restore(Path(arguments[0])))


def in_words(work: Callable[[], None]) -> int:
    """Runs `work`; 1 and one sentence on stderr when it cannot be done."""
    import django
    from django.db import DatabaseError

    os.umask(0o077)
    django.setup()
    from piherder.archive.errors import ArchiveError

    try:
        work()
    except (Refused, ArchiveError, DatabaseError, sqlite3.Error, OSError) as error:
        print(str(error).strip().splitlines()[0], file=sys.stderr)
        return 1
    return 0
