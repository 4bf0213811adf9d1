"""The database of this installation as one file, whichever engine it has."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from django.db import connection

from jobs.patience import patiently
from piherder.archive import postgres, sqlite
from piherder.archive.errors import of_system
from piherder.archive.manifest import DUMPS, Engine
from piherder.archive.shelf import private_file

if TYPE_CHECKING:
    from collections.abc import Callable


def dump(folder: Path, tick: Callable[[], None]) -> tuple[Path, Engine]:
    """A consistent dump in `folder`, which must be ours alone, and what made it. Raises ArchiveError."""
    goal = folder / DUMPS[connection.vendor]
    try:
        private_file(goal).close()
        return goal, _sqlite(goal, tick) if connection.vendor == "sqlite" else _postgresql(goal, tick)
    except OSError as error:
        raise of_system(error, goal) from error


def _sqlite(goal: Path, tick: Callable[[], None]) -> Engine:
    raw = goal.with_name("database.sqlite3")
    sqlite.copy(sqlite_file(), raw, tick)
    with goal.open("wb") as packed:
        sqlite.compress(raw, packed, tick)
    size = raw.stat().st_size
    raw.unlink()
    return Engine("sqlite", sqlite3.sqlite_version, unpacked=size)


def sqlite_file() -> Path:
    """The file of the SQLite database in use."""
    return Path(str(connection.settings_dict["NAME"]))


def server_major() -> int:
    """Major version of the PostgreSQL server. Raises DatabaseError."""
    number: int = connection.pg_version  # type: ignore[attr-defined]  # of the PostgreSQL backend alone
    return number // 10_000


def _postgresql(goal: Path, tick: Callable[[], None]) -> Engine:
    server = patiently(server_major, tick)
    tool = postgres.dump(postgres.address(connection.settings_dict), server, goal, tick)
    return Engine("postgresql", str(server), tool=tool.major)
