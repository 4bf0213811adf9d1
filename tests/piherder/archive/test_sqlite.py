"""SQLite: a consistent copy of a database in use."""

from __future__ import annotations

import gzip
import io
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure
from piherder.archive import sqlite
from piherder.archive.errors import ArchiveError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 4000


def no_tick() -> None:
    """Nobody cancels."""


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A database in WAL mode with two numbers that always agree."""
    path = tmp_path / "live%41.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE one (n INTEGER)")
        made.execute("CREATE TABLE two (n INTEGER)")
        made.execute("INSERT INTO one VALUES (0)")
        made.execute("INSERT INTO two VALUES (0)")
        made.execute("CREATE TABLE filler (x BLOB)")
        made.execute("BEGIN")
        made.executemany("INSERT INTO filler VALUES (randomblob(4000))", [()] * ROWS)
        made.execute("COMMIT")
    return path


def value(path: Path, query: str) -> object:
    """One value of a database."""
    with closing(sqlite3.connect(path)) as found:
        return found.execute(query).fetchone()[0]


def test_a_copy_is_one_state_although_others_write(live: Path, tmp_path: Path) -> None:
    stop, wrote = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(live, isolation_level=None, timeout=20)) as own:
            while not stop.is_set():
                own.execute("BEGIN IMMEDIATE")
                own.execute("UPDATE one SET n = n + 1")
                own.execute("UPDATE two SET n = n + 1")
                own.execute("COMMIT")
                wrote.set()

    writer = threading.Thread(target=write)
    writer.start()
    wrote.wait(20)
    steps: list[object] = []

    def tick() -> None:
        """Let a foreign write come between any two steps."""
        steps.append(0)
        wrote.clear()
        assert wrote.wait(20)

    try:
        sqlite.copy(live, tmp_path / "copy", tick)
    finally:
        stop.set()
        writer.join()
    assert 3 < len(steps) < 3 * ROWS / sqlite.STEP, "the copy began anew with each foreign write"
    assert value(tmp_path / "copy", "SELECT one.n - two.n FROM one, two") == 0
    assert value(tmp_path / "copy", "SELECT count(*) FROM filler") == ROWS


def test_a_copy_is_a_single_file(live: Path, tmp_path: Path) -> None:
    sqlite.copy(live, tmp_path / "copy", no_tick)
    assert value(tmp_path / "copy", "PRAGMA journal_mode") == "delete"
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy"]


def test_a_stop_ends_the_copy(live: Path, tmp_path: Path) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        sqlite.copy(live, tmp_path / "copy", stop)


def damage(path: Path) -> None:
    """Overwrite pages in the middle."""
    with path.open("r+b") as handle:
        handle.seek(4096 * 20)
        handle.write(b"\xff" * 4096 * 30)


def test_a_damaged_database_is_told(live: Path, tmp_path: Path) -> None:
    damage(live)
    with pytest.raises(ArchiveError, match=r"is damaged .*: bring back an archive made before"):
        sqlite.copy(live, tmp_path / "copy", no_tick)
    with pytest.raises(ArchiveError, match="The database in the archive is damaged"):
        sqlite.check(live, "in the archive")


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no database " * 100)
    with pytest.raises(ArchiveError, match="is damaged"):
        sqlite.check(tmp_path / "x", "x")


def test_a_database_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be copied"):
        sqlite.copy(tmp_path / "none", tmp_path / "copy", no_tick)
    assert not (tmp_path / "none").exists()


def test_a_full_disk_is_told(live: Path, full_disk: Path) -> None:
    (full_disk / "filler").write_bytes(b"x" * (60 << 20))
    with pytest.raises(ArchiveError, match="There is no room left") as refused:
        sqlite.copy(live, full_disk / "copy", no_tick)
    assert refused.value.code == Failure.NO_SPACE


def test_what_was_compressed_expands_again(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"database " * 300_000)
    with (tmp_path / "packed").open("wb") as goal:
        sqlite.compress(tmp_path / "plain", goal, no_tick)
    assert (tmp_path / "packed").stat().st_size < 30_000
    out = io.BytesIO()
    sqlite.expand(tmp_path / "packed", out, 2_700_000, no_tick)
    assert out.getvalue() == b"database " * 300_000


@pytest.mark.parametrize("said", [0, 999, 1001, 5_000_000])
def test_a_bomb_or_a_short_file_is_refused(tmp_path: Path, said: int) -> None:
    (tmp_path / "packed").write_bytes(gzip.compress(b"x" * 1000))
    out = io.BytesIO()
    with pytest.raises(ArchiveError, match="another size than its manifest says"):
        sqlite.expand(tmp_path / "packed", out, said, no_tick)
    assert len(out.getvalue()) <= min(said, 1000)


WHOLE = gzip.compress(bytes(range(250)) * 4, mtime=0)
ODD = WHOLE[:10] + bytes(byte ^ 0xFF for byte in WHOLE[10:40]) + WHOLE[40:]  # behind a whole header


@pytest.mark.parametrize("content", [b"", b"no gzip at all", WHOLE[:-6], ODD])
def test_what_cannot_be_expanded_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "packed").write_bytes(content)
    with pytest.raises(ArchiveError, match=r"damaged or incomplete|another size"):
        sqlite.expand(tmp_path / "packed", io.BytesIO(), 1000, no_tick)
