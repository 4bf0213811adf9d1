"""The copy that an upgrade makes first, and its way back, on both engines for real."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from piherder import env
from piherder.archive import postgres
from piherder.house import database_copy
from piherder.house.folder import CLONE, Refused
from piherder.house.postgres import PrivatePostgres
from tests.piherder.archive.test_pipe import newer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("newer",)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database in WAL mode that still has a writer's side files."""
    with closing(sqlite3.connect(tmp_path / "db.sqlite3")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('before')")
        connection.commit()
        yield connection


def house(data: Path, *words: str, url: str = "") -> subprocess.CompletedProcess[str]:
    """A part of the house on this data folder."""
    database = url or f"sqlite:///{data / 'db.sqlite3'}"
    environment = env.child_environment(PIHERDER_DATA=str(data), DATABASE_URL=database)
    command = [sys.executable, "-m", "piherder.house", *words]
    return subprocess.run(command, cwd=CLONE, env=environment, capture_output=True, text=True)


def rows(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM kept")]


def test_a_copy_is_whole_private_and_named(live: sqlite3.Connection, tmp_path: Path) -> None:
    done = house(tmp_path, "copy-database", str(tmp_path / "upgrades/1"))
    copy = tmp_path / "upgrades/1/db.sqlite3"
    assert (done.returncode, done.stdout) == (0, f"{copy}\n")
    assert rows(copy) == ["before"]
    assert [oct(path.stat().st_mode & 0o777) for path in (copy.parent, copy)] == ["0o700", "0o600"]


def test_the_way_back_undoes_what_came_later(live: sqlite3.Connection, tmp_path: Path) -> None:
    house(tmp_path, "copy-database", str(tmp_path / "upgrades/1"))
    live.execute("UPDATE kept SET word = 'after'")
    live.execute("CREATE TABLE half_made (id)")
    live.commit()
    live.close()
    done = house(tmp_path, "restore-database", str(tmp_path / "upgrades/1/db.sqlite3"))
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(tmp_path / "db.sqlite3") == ["before"]
    assert [path.name for path in tmp_path.glob("db.sqlite3*")] == ["db.sqlite3"]


def test_side_files_of_a_killed_writer_do_not_spoil_the_copy(tmp_path: Path, live: sqlite3.Connection) -> None:
    house(tmp_path, "copy-database", str(tmp_path / "upgrades/1"))
    live.execute("UPDATE kept SET word = 'in the log'")
    live.commit()
    wal = (tmp_path / "db.sqlite3-wal").read_bytes()
    database_copy.restore_sqlite(tmp_path / "upgrades/1/db.sqlite3", tmp_path / "db.sqlite3")
    assert len(wal) > 0
    assert [path.name for path in tmp_path.glob("db.sqlite3*")] == ["db.sqlite3"]
    assert rows(tmp_path / "db.sqlite3") == ["before"]


def test_a_copy_of_the_other_engine_is_refused(live: sqlite3.Connection, tmp_path: Path) -> None:
    (tmp_path / "database.pgdump").touch()
    done = house(tmp_path, "restore-database", str(tmp_path / "database.pgdump"))
    assert done.returncode == 1
    assert done.stderr.endswith("is no copy of the database in use (sqlite).\n")
    assert rows(tmp_path / "db.sqlite3") == ["before"]


def test_a_damaged_database_is_not_copied_as_if_it_were_well(tmp_path: Path) -> None:
    (tmp_path / "db.sqlite3").write_bytes(os.urandom(8192))
    done = house(tmp_path, "copy-database", str(tmp_path / "upgrades/1"))
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("size", "free", "refused"), [(100, 120, False), (100, 119, True), (0, 0, False)])
def test_room_is_looked_at_first(size: int, free: int, refused: bool) -> None:
    assert bool(database_copy.enough_room(size, free)) is refused


def test_the_missing_room_is_named() -> None:
    assert database_copy.enough_room(500_000_000, 40_000_000) == (
        "A copy of the database needs 600 MB, and 40 MB are free: make room first."
    )


def test_a_full_disk_is_told_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def full() -> None:
        raise Refused("A copy of the database needs 600 MB, and 40 MB are free: make room first.")

    assert database_copy.in_words(full) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    found = PrivatePostgres()
    found.start()
    yield found
    found.close()


def of_its_own(server: PrivatePostgres, name: str) -> str:
    """A database with an owner of its name: the server's first user owns what PostgreSQL itself is made of."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'h'")
        connection.execute(f"CREATE DATABASE {name} OWNER {name}")
    return f"postgresql://{name}:h@127.0.0.1:{server.place.port}/{name}"


def test_what_a_newer_pg_restore_writes_an_older_server_takes(
    server: PrivatePostgres, tmp_path: Path, newer: None
) -> None:
    url = of_its_own(server, "older")
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.info.server_version >= 170_000:
            pytest.skip("this server knows the setting")
        connection.execute("CREATE TABLE kept AS SELECT 'a' AS word")
    done = house(tmp_path, "copy-database", str(tmp_path / "upgrades/1"), url=url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE kept SET word = 'b'")
    login = {"HOST": "127.0.0.1", "PORT": str(server.place.port), "USER": "older", "PASSWORD": "h", "NAME": "older"}
    postgres.replace_all(postgres.address(login), 15, Path(done.stdout.strip()))
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT word FROM kept").fetchall() == [("a",)]


def test_postgresql_comes_back_without_what_a_later_version_made(server: PrivatePostgres, tmp_path: Path) -> None:
    url = of_its_own(server, "herder")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE kept (id bigserial PRIMARY KEY, word text); INSERT INTO kept(word) VALUES ('a')"
        )
    done = house(tmp_path, "copy-database", str(tmp_path / "upgrades/1"), url=url)
    assert (done.returncode, done.stderr) == (0, "")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE newer (id bigint REFERENCES kept); UPDATE kept SET word = 'b'")
    back = house(tmp_path, "restore-database", done.stdout.strip(), url=url)
    assert (back.returncode, back.stderr) == (0, "")
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT word FROM kept").fetchall() == [("a",)]
        assert connection.execute("SELECT to_regclass('newer')").fetchone() == (None,)
    assert [path.name for path in (tmp_path / "upgrades/1").iterdir()] == ["database.pgdump"]
