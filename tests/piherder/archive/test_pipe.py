"""A dump's way through a filter into psql: what older servers do not know, and what is cut off or killed on the way."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from piherder.archive import postgres
from piherder.archive.dump import server_major
from piherder.archive.pipe import UNKNOWN_TO_OLDER, pour, understood
from piherder.house.folder import CLONE
from piherder.house.processes import wait_until
from tests.piherder.archive.test_postgres import needs_server, query, spare

if TYPE_CHECKING:
    from pathlib import Path

    from piherder.archive.postgres import Address

__all__ = ("spare",)

NEWER = b"""--
-- PostgreSQL database dump
--

\\restrict abc

-- Dumped by pg_dump version 17.6

SET statement_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SELECT pg_catalog.set_config('search_path', '', false);

SET default_tablespace = '';
"""
ROWS = b"COPY public.one (x) FROM stdin;\nSET transaction_timeout = 0;\n\\.\n"


def test_the_setting_is_left_out_and_nothing_else() -> None:
    source = io.BytesIO(NEWER + ROWS)
    assert b"".join([*understood(source), source.read()]) == NEWER.replace(UNKNOWN_TO_OLDER, b"") + ROWS


def test_a_dump_without_the_setting_stays_as_it_is() -> None:
    older = NEWER.replace(UNKNOWN_TO_OLDER, b"") + ROWS
    source = io.BytesIO(older)
    assert b"".join([*understood(source), source.read()]) == older


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed tools, with what those of version 17 write before anything else."""
    real = {name: postgres.tools(name)[0].path for name in ("pg_restore", "psql")}
    script = tmp_path / "pg_restore"
    add = "s/^SET lock_timeout = 0;$/&\\nSET transaction_timeout = 0;/"
    script.write_text(f'#!/bin/sh\n"{real["pg_restore"]}" "$@" >"$0.out" && sed "{add}" "$0.out"\n')
    script.chmod(0o755)
    found = {"pg_restore": str(script), "psql": real["psql"]}
    monkeypatch.setattr(postgres, "tools", lambda name: [postgres.Tool(found[name], 17)])


@needs_server
@pytest.mark.django_db(transaction=True)
def test_what_a_newer_tool_writes_an_older_server_takes(spare: Address, tmp_path: Path, newer: None) -> None:
    if server_major() >= 17:
        pytest.skip("this server knows the setting")
    query(spare, b"CREATE TABLE one (x text); INSERT INTO one VALUES ('SET transaction_timeout = 0;'), ('b')")
    postgres_dump(spare, tmp_path / "dump")
    query(spare, b"DROP TABLE one")
    postgres.restore(spare, 17, server_major(), tmp_path / "dump")
    assert query(spare, b"SELECT x FROM one ORDER BY length(x) DESC") == [("SET transaction_timeout = 0;",), ("b",)]


def postgres_dump(place: Address, goal: Path) -> None:
    """A dump by the installed tool, whatever `tools` says."""
    words = ["pg_dump", "--format=custom", f"--file={goal}", f"--dbname={place.conninfo}"]
    subprocess.run(words, env={**os.environ, **place.secrets}, check=True)


HALF = """
import json, sys
from piherder.archive.pipe import pour
pour(*json.loads(sys.argv[1]))
"""


@needs_server
@pytest.mark.django_db(transaction=True)
def test_kill_9_before_the_end_leaves_what_was_there(spare: Address, tmp_path: Path) -> None:
    query(spare, b"CREATE TABLE one (x text); INSERT INTO one VALUES ('old')")
    (tmp_path / "sql").write_text("CREATE TABLE one (x text);\nCOPY one FROM stdin;\n" + "new\n" * 500_000)
    reader = ["sh", "-c", f"cat {tmp_path}/sql; exec sleep 600"]
    writer = [postgres.tools("psql")[0].path, "-X", "-q", "-v", "ON_ERROR_STOP=1", f"--dbname={spare.conninfo}", "-f-"]
    words = json.dumps([reader, writer, "DROP TABLE one;", "", postgres.environment(spare.secrets)])
    with subprocess.Popen([sys.executable, "-c", HALF, words], cwd=CLONE) as half:
        copying = wait_until(lambda: b"COPY" in others(spare), 60)
        half.send_signal(signal.SIGKILL)
    assert copying
    assert wait_until(lambda: others(spare) == b"", 60)
    assert query(spare, b"SELECT x FROM one") == [("old",)]


def others(place: Address) -> bytes:
    """What other sessions there are at."""
    ask = b"SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return " ".join(str(row[0]) for row in query(place, ask)).encode()


@needs_server
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["exit 1", "exit 0"])
def test_only_a_dump_that_was_read_whole_is_committed(spare: Address, end: str) -> None:
    writer = [postgres.tools("psql")[0].path, "-X", "-q", "-v", "ON_ERROR_STOP=1", f"--dbname={spare.conninfo}", "-f-"]
    reader = ["sh", "-c", f"echo 'CREATE TABLE one (x int);'; echo said >&2; {end}"]
    read, written = pour(reader, writer, "", "", postgres.environment(spare.secrets))
    assert (read.code, read.text, written.code) == (int(end[-1]), "said\n", 0)
    there = query(spare, b"SELECT count(*) FROM pg_tables WHERE tablename = 'one'")
    assert there == [(1 - read.code,)]


def test_a_writer_that_ends_early_tells_why() -> None:
    reader = ["sh", "-c", "yes | head -c 3000000"]
    read, written = pour(reader, ["sh", "-c", "echo no >&2; exit 3"], "", "", {"PATH": os.defpath})
    assert (written.code, written.text) == (3, "no\n")
    assert read.code != 0
