"""SQLite: a consistent copy while others write, its proof, and its way through gzip."""

from __future__ import annotations

import gzip
import sqlite3
import zlib
from contextlib import closing
from typing import IO, TYPE_CHECKING
from urllib.parse import quote

from piherder.archive.errors import DAMAGED, FULL_WORDS, ArchiveError, no_space

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEP = 512  # pages between two looks
CHUNK = 1 << 20


def copy(source: Path, goal: Path, tick: Callable[[], None]) -> None:
    """A whole, checked copy of the database `source` as the single file `goal`. Raises ArchiveError.

    The read transaction around the steps is one snapshot: without it each foreign write would begin the copy anew.
    """
    try:
        with closing(connect(source, "ro")) as live, closing(connect(goal, "rwc")) as there:
            live.execute("BEGIN")
            live.execute("SELECT count(*) FROM sqlite_master").fetchone()
            live.backup(there, pages=STEP, progress=lambda *_: tick())
            live.execute("ROLLBACK")
            _require_whole(there, source)
            # Without it the copy would want two more files beside it.
            there.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise in_words(error, source, goal) from error


def check(path: Path, called: object) -> None:
    """Raises ArchiveError for a file that is no whole SQLite database; `called` names it for people."""
    try:
        with closing(connect(path, "rw")) as found:
            _require_whole(found, called)
    except sqlite3.Error as error:
        raise in_words(error, called, path) from error


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection without Python's own transactions; `mode` as in SQLite's URIs."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, isolation_level=None, timeout=20)


def _require_whole(database: sqlite3.Connection, called: object) -> None:
    (said,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if said != "ok":
        first = str(said).splitlines()[-1]
        raise ArchiveError(f"The database {called} is damaged ({first}): bring back an archive made before.")


def in_words(error: sqlite3.Error, source: object, goal: object) -> ArchiveError:
    """What SQLite said, as one sentence."""
    if any(words in str(error) for words in FULL_WORDS):
        return no_space(goal)
    if "malformed" in str(error) or "not a database" in str(error):
        return ArchiveError(f"The database {source} is damaged ({error}): bring back an archive made before.")
    return ArchiveError(f"The database {source} cannot be copied ({error}): try again.")


def compress(source: Path, goal: IO[bytes], tick: Callable[[], None]) -> None:
    """`source` through gzip into `goal`. Raises OSError."""
    with source.open("rb") as plain, gzip.GzipFile(filename="", fileobj=goal, mode="wb", compresslevel=6) as packed:
        while data := plain.read(CHUNK):
            tick()
            packed.write(data)


def expand(source: Path, goal: IO[bytes], size: int, tick: Callable[[], None]) -> None:
    """`source` out of gzip into `goal`, which must become `size` bytes long. Raises ArchiveError or OSError."""
    left = size
    try:
        with gzip.open(source, "rb") as packed:
            while left >= 0 and (data := packed.read(min(CHUNK, left + 1))):
                tick()
                goal.write(data[:left])
                left -= len(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ArchiveError(DAMAGED) from error
    if left:
        raise ArchiveError("The database in the archive has another size than its manifest says: take another one.")


def single_file(path: Path) -> None:
    """Leave the database in one file, with nothing beside it. Raises ArchiveError."""
    try:
        with closing(connect(path, "rw")) as found:
            found.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise in_words(error, path, path) from error
