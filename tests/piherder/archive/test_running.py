"""Who uses an installation now."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from django.db import ProgrammingError, connection
from django.db.models import F

from jobs.models import BeatLease, WorkerNode
from piherder.archive import postgres, running
from piherder.house.folder import only_one
from tests.factories import make_node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.piherder.archive.conftest import Herder


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "watching_seconds", lambda: 3.0)


@pytest.fixture
def beating(herder: Herder) -> Iterator[None]:
    """A worker and a beat whose counters move, and a worker that died without a word."""
    make_node("alive@pi")
    make_node("dead@pi")
    BeatLease.objects.create(pk=1, holder="0" * 32, name="pi")
    end = threading.Event()

    def beat() -> None:
        while not end.wait(0.1):
            WorkerNode.objects.filter(name="alive@pi").update(beats=F("beats") + 1)
            BeatLease.objects.update(counter=F("counter") + 1)
        connection.close()

    thread = threading.Thread(target=beat)
    thread.start()
    yield
    end.set()
    thread.join()


def test_who_beats_is_named_and_who_is_dead_is_not(beating: None) -> None:
    assert {"alive@pi", "beat on pi"} == set(running.beating())


def test_nobody_at_all(herder: Herder) -> None:
    WorkerNode.objects.all().delete()
    assert running.beating() == []


def test_a_stack_on_the_data_folder_is_named(herder: Herder) -> None:
    with only_one(herder.data):
        assert running.users()[0] == f"the stack on {herder.data}"


def test_a_database_without_our_tables_is_used_by_nobody_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_table() -> None:
        raise ProgrammingError("no such table")

    monkeypatch.setattr(running, "Pulse", no_table)
    assert running.beating() == []


def test_a_process_with_the_file_open_is_named_with_its_pid(tmp_path: Path) -> None:
    database = tmp_path / "db.sqlite3"
    database.write_text("")
    code = "import sys; f = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", code, str(database)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        (found,) = running.openers(database)
        assert found.endswith(f"(process {holder.pid})")
        assert found.startswith("python")
    assert running.openers(database) == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="asks a PostgreSQL server")
def test_a_session_of_the_database_is_named(herder: Herder) -> None:
    place = postgres.address(connection.settings_dict)
    with psycopg.connect(place.conninfo, password=place.secrets["PGPASSWORD"], application_name="web") as session:
        assert f"web from 127.0.0.1 (server process {session.info.backend_pid})" in running.sessions()


def test_a_session_without_a_name_or_a_place() -> None:
    assert running.session_words(7, "", None) == "a session (server process 7)"
    assert running.called("0") == "a process"
