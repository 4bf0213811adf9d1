"""PostgreSQL: how its tools are found and called, and a real dump with a real server."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from django.db import connection

from jobs.models import Failure
from piherder.archive import postgres
from piherder.archive.dump import server_major
from piherder.archive.errors import ArchiveError
from piherder.archive.postgres import Address, Tool, address, choose, dropping, failure, major_of, read_listing
from tests.piherder.archive.fresh import drop_database, new_database
from tests.piherder.archive.test_gpg import pids_naming

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER: dict[str, Any] = {"NAME": "herd", "USER": "me", "PASSWORD": "geheim", "HOST": "db", "PORT": "5433"}
FOUND = [Tool("/17/pg_dump", 17), Tool("/15/pg_dump", 15), Tool("/usr/bin/pg_dump", 16)]


def test_the_password_goes_into_the_environment_alone() -> None:
    found = address({**SERVER, "OPTIONS": {"sslmode": "require", "connect_timeout": 5, "pool": True}})
    assert found.secrets == {"PGPASSWORD": "geheim"}
    parts = set(found.conninfo.split())
    assert parts == {"dbname=herd", "user=me", "host=db", "port=5433", "sslmode=require", "connect_timeout=5"}


def test_what_is_not_given_is_left_to_libpq() -> None:
    assert address({"NAME": "a b", "USER": "", "PASSWORD": None, "HOST": ""}) == Address("dbname='a b'", {})


def test_a_secret_that_could_only_be_shown_is_refused() -> None:
    with pytest.raises(ArchiveError, match="sslpassword") as refused:
        address({**SERVER, "OPTIONS": {"sslpassword": "geheim"}})
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "major"),
    [("pg_dump (PostgreSQL) 15.10 (Debian 15.10-0+deb12u1)", 15), ("pg_dump (PostgreSQL) 18beta1", 18), ("", 0)],
)
def test_versions_are_read(text: str, major: int) -> None:
    assert major_of(text) == major


@pytest.mark.parametrize(("server", "path"), [(15, "/15/pg_dump"), (16, "/usr/bin/pg_dump"), (14, "/15/pg_dump")])
def test_the_closest_that_is_not_older_is_taken(server: int, path: str) -> None:
    assert choose("pg_dump", FOUND, server).path == path


def test_an_older_tool_is_told_with_what_to_install() -> None:
    with pytest.raises(ArchiveError, match=r"pg_dump 17 is older .*\(version 18\): sudo apt install .*-18"):
        choose("pg_dump", FOUND, 18)
    with pytest.raises(ArchiveError, match="pg_restore is not installed: sudo apt install postgresql-client-15"):
        choose("pg_restore", [], 15)


def test_tools_are_found_newest_first_and_on_the_path_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("9.6", "15", "17", "path"):
        folder = tmp_path / version / "bin"
        folder.mkdir(parents=True)
        (folder / "pg_dump").write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version.replace('path', '16')}.1'\n")
        (folder / "pg_dump").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin:/bin")
    assert [tool.major for tool in postgres.tools("pg_dump", tmp_path)] == [17, 15, 9, 16, 16]


def test_a_tool_that_does_not_start_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "15" / "bin").mkdir(parents=True)
    (tmp_path / "15" / "bin" / "pg_dump").write_text("broken")
    monkeypatch.setenv("PATH", "/nowhere")
    assert [tool.major for tool in postgres.tools("pg_dump", tmp_path)] == [0]


def test_the_first_error_counts() -> None:
    assert failure("pg_dump: warning: odd\npg_dump: error: first\npg_dump: error: second\n") == "pg_dump: error: first"
    assert (failure("only this\n"), failure("")) == ("only this", "")
    psql = 'psql:<stdin>:7: ERROR:  type "public.citext" does not exist\nLINE 1: x\n'
    assert str(postgres.refusal(psql)) == 'psql failed: type "public.citext" does not exist.'


def test_a_server_that_is_away_is_one_sentence(tmp_path: Path) -> None:
    nobody = address({**SERVER, "HOST": "127.0.0.1", "PORT": "1"})
    with pytest.raises(ArchiveError, match=r"^pg_dump failed: .*: Connection refused\.$") as told:
        postgres.dump(nobody, 15, tmp_path / "dump", lambda: None)
    assert (told.value.code, "geheim" in str(told.value)) == (Failure.ERROR, False)


needs_server = pytest.mark.skipif(connection.vendor != "postgresql", reason="asks a PostgreSQL server")


@needs_server
@pytest.mark.django_db(transaction=True)
def test_a_dump_lists_our_tables(tmp_path: Path) -> None:
    tool = postgres.dump(address(connection.settings_dict), server_major(), tmp_path / "dump", lambda: None)
    found = postgres.listing(tool.major, tmp_path / "dump", lambda: None)
    assert {"jobs_job", "hosts_host", "django_migrations"} <= found.tables
    assert (found.schema, found.foreign) == ("public", ())


def test_the_password_is_seen_by_nobody_and_a_stop_ends_the_tool(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def look() -> None:
        """Until pg_dump itself runs; then stop it."""
        for pid in pids_naming(tmp_path):
            seen.append(Path(f"/proc/{pid}/cmdline").read_bytes())
            if seen[-1].split(b"\0")[0].endswith(b"pg_dump"):
                raise InterruptedError

    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = address({**SERVER, "HOST": "127.0.0.1", "PORT": silent.getsockname()[1]})
        with pytest.raises(InterruptedError):
            postgres.dump(place, 15, tmp_path / "dump", look)
    assert not any(b"geheim" in line for line in seen)
    assert pids_naming(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"PGDMP", b"no dump"])
def test_what_is_no_dump_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "dump").write_bytes(content)
    with pytest.raises(ArchiveError, match=r"^pg_restore failed: "):
        postgres.listing(0, tmp_path / "dump", lambda: None)


def test_the_tools_are_there() -> None:
    assert subprocess.run([postgres.tools("pg_restore")[0].path, "--version"], check=False).returncode == 0


@pytest.fixture
def spare() -> Iterator[Address]:
    """An empty database of its own."""
    url = new_database()
    yield address({**connection.settings_dict, "NAME": url.rpartition("/")[2]})
    drop_database(url)


def query(place: Address, statement: bytes) -> list[tuple[object, ...]]:
    """Rows of a statement there."""
    with psycopg.connect(place.conninfo, autocommit=True, password=place.secrets["PGPASSWORD"]) as session:
        cursor = session.execute(statement)
        return cursor.fetchall() if cursor.description else []


def dumped(place: Address, goal: Path) -> int:
    """Dump it; returns the tool's version."""
    return postgres.dump(place, server_major(), goal, lambda: None).major


@needs_server
@pytest.mark.django_db(transaction=True)
def test_a_dump_brings_tables_rows_and_counters_back(spare: Address, tmp_path: Path) -> None:
    query(spare, b"CREATE TABLE one (id serial, x text); INSERT INTO one (x) VALUES ('a'), ('b')")
    tool = dumped(spare, tmp_path / "dump")
    query(spare, b"DELETE FROM one; INSERT INTO one (x) VALUES ('c')")
    postgres.restore(spare, tool, server_major(), tmp_path / "dump")
    assert query(spare, b"SELECT x FROM one ORDER BY id") == [("a",), ("b",)]
    assert query(spare, b"INSERT INTO one (x) VALUES ('d') RETURNING id") == [(3,)]


@needs_server
@pytest.mark.django_db(transaction=True)
def test_a_restore_that_breaks_half_way_changes_nothing(spare: Address, tmp_path: Path) -> None:
    query(spare, b"CREATE TABLE one (x text); CREATE TABLE two (x text); INSERT INTO one VALUES ('old')")
    tool = dumped(spare, tmp_path / "dump")
    query(spare, b"CREATE VIEW in_the_way AS SELECT * FROM two; UPDATE one SET x = 'new'")
    with pytest.raises(ArchiveError, match=r"\(view in_the_way depends on table two\): remove that first"):
        postgres.restore(spare, tool, server_major(), tmp_path / "dump")
    assert query(spare, b"SELECT x FROM one") == [("new",)]
    query(spare, b"DROP VIEW in_the_way")
    with pytest.raises(ArchiveError, match=r"^psql failed: division by zero\.$"):
        postgres.restore(spare, tool, server_major(), tmp_path / "dump", then="SELECT 1 / 0;")
    assert query(spare, b"SELECT x FROM one") == [("new",)]


@needs_server
@pytest.mark.django_db(transaction=True)
def test_a_truncated_dump_changes_nothing(spare: Address, tmp_path: Path) -> None:
    query(spare, b"CREATE TABLE one AS SELECT md5(n::text) AS x FROM generate_series(1, 20000) n")
    tool = dumped(spare, tmp_path / "dump")
    os.truncate(tmp_path / "dump", (tmp_path / "dump").stat().st_size - 2000)
    with pytest.raises(ArchiveError, match=r"^pg_restore failed: "):
        postgres.restore(spare, tool, server_major(), tmp_path / "dump")
    assert query(spare, b"SELECT count(*) FROM one") == [(20_000,)]


@needs_server
@pytest.mark.django_db(transaction=True)
def test_a_wrong_password_is_one_sentence_without_it(spare: Address, tmp_path: Path) -> None:
    wrong = Address(spare.conninfo, {"PGPASSWORD": "geheim"})
    with pytest.raises(ArchiveError, match="password authentication failed") as told:
        postgres.dump(wrong, server_major(), tmp_path / "dump", lambda: None)
    assert "geheim" not in str(told.value)
    assert "\n" not in str(told.value)


@needs_server
@pytest.mark.django_db(transaction=True)
def test_options_of_the_address_are_passed_on(spare: Address, tmp_path: Path) -> None:
    strict = address({**connection.settings_dict, "OPTIONS": {"sslmode": "require"}})
    with pytest.raises(ArchiveError, match="server does not support SSL, but SSL was required"):
        postgres.dump(strict, server_major(), tmp_path / "dump", lambda: None)


@needs_server
@pytest.mark.django_db(transaction=True)
def test_a_dump_replaces_what_later_tables_refer_to(spare: Address, tmp_path: Path) -> None:
    query(spare, b"CREATE TABLE one (id int PRIMARY KEY); INSERT INTO one VALUES (1)")
    tool = dumped(spare, tmp_path / "dump")
    query(spare, b"CREATE TABLE two (one int REFERENCES one); INSERT INTO two VALUES (1); CREATE TABLE three (x int)")
    query(spare, b"ALTER TABLE one ADD two int")
    with pytest.raises(ArchiveError, match=r"\(constraint two_one_fkey on table two depends on table one"):
        postgres.restore(spare, tool, server_major(), tmp_path / "dump")
    postgres.restore(spare, tool, server_major(), tmp_path / "dump", replaced={"two", "four"})
    assert query(spare, b"SELECT * FROM one") == [(1,)]
    assert query(spare, b"SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [("three",), ("one",)]


@needs_server
@pytest.mark.django_db(transaction=True)
def test_what_is_not_ours_is_neither_brought_back_nor_removed(spare: Address, tmp_path: Path) -> None:
    query(spare, b"CREATE EXTENSION pg_trgm; CREATE SCHEMA other; CREATE TABLE other.mine (x int)")
    query(spare, b"CREATE TABLE one (x text); CREATE INDEX trigrams ON one (x); CREATE VIEW seen AS SELECT 1 AS x")
    query(spare, b"INSERT INTO one VALUES ('old')")
    tool = dumped(spare, tmp_path / "dump")
    found = postgres.listing(tool, tmp_path / "dump", lambda: None)
    assert sorted(found.foreign) == ["extension pg_trgm", "table mine", "view seen"]
    query(spare, b"INSERT INTO other.mine VALUES (7); DELETE FROM one; CREATE FUNCTION f() RETURNS int RETURN 1")
    postgres.restore(spare, tool, server_major(), tmp_path / "dump")
    assert query(spare, b"SELECT o.x, m.x, s.x, f() FROM one o, other.mine m, seen s") == [("old", 7, 1, 1)]
    assert query(spare, b"SELECT extname FROM pg_extension WHERE extname = 'pg_trgm'") == [("pg_trgm",)]
    assert query(spare, b"SELECT indexname FROM pg_indexes WHERE tablename = 'one'") == [("trigrams",)]


@needs_server
@pytest.mark.django_db(transaction=True)
def test_an_extension_that_the_role_cannot_make_hinders_nothing(spare: Address, tmp_path: Path) -> None:
    query(spare, b"CREATE EXTENSION file_fdw; CREATE TABLE one (x text); INSERT INTO one VALUES ('a')")
    tool = dumped(spare, tmp_path / "dump")
    url = new_database()
    name = url.rpartition("/")[2]
    try:
        query(spare, f"CREATE ROLE {name} LOGIN PASSWORD 'plain'; ALTER DATABASE {name} OWNER TO {name}".encode())
        place = address({**connection.settings_dict, "NAME": name, "USER": name, "PASSWORD": "plain"})
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            query(place, b"CREATE EXTENSION file_fdw")
        postgres.restore(place, tool, server_major(), tmp_path / "dump")
        assert query(place, b"SELECT x FROM one") == [("a",)]
    finally:
        drop_database(url)
        query(spare, f"DROP ROLE {name}".encode())


def test_a_list_is_read() -> None:
    found = read_listing(
        "; Archive created at 2030-01-01\n"
        "5; 2615 2200 SCHEMA - herd owner\n"
        "2; 3079 16389 EXTENSION - pg_trgm \n"
        "215; 1259 16385 TABLE herd django_migrations owner\n"
        "214; 1259 16384 SEQUENCE herd django_migrations_id_seq owner\n"
        "216; 1259 16390 TABLE other jobs_job owner\n"
        "217; 1259 16391 TABLE herd jobs_job owner\n"
        "3417; 0 16391 TABLE DATA herd jobs_job owner\n"
        "3501; 2606 17000 FK CONSTRAINT herd jobs_job jobs_fk owner\n"
    )
    assert (found.schema, sorted(found.tables)) == ("herd", ["django_migrations", "jobs_job"])
    assert [line.split(";")[0] for line in found.lines] == ["215", "214", "217", "3417", "3501"]
    assert found.foreign == ("extension pg_trgm", "table jobs_job")


def test_names_are_quoted() -> None:
    assert dropping("a b", ['x"y', "c"]).splitlines()[1] == 'DROP TABLE IF EXISTS "a b"."c", "a b"."x""y";'
    assert dropping("public", []) == ""
