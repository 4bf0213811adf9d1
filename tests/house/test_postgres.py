"""The private PostgreSQL server of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from piherder.house import postgres
from piherder.house.folder import Refused
from piherder.house.postgres import PrivatePostgres

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster() -> Iterator[PrivatePostgres]:
    server = PrivatePostgres()
    yield server
    server.close()
    assert not server.place.folder.exists()


@pytest.fixture
def server(cluster: PrivatePostgres) -> Iterator[PrivatePostgres]:
    cluster.start()
    with psycopg.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS note (word text)")
        connection.execute("TRUNCATE note")
    yield cluster
    cluster.stop()


def write(server: PrivatePostgres, word: str) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("INSERT INTO note VALUES (%s)", [word])


def read(server: PrivatePostgres) -> list[str]:
    with psycopg.connect(server.url) as connection:
        return [row[0] for row in connection.execute("SELECT word FROM note")]


def test_keeps_its_data_over_a_restart(server: PrivatePostgres) -> None:
    write(server, "kept")
    server.restart()
    assert read(server) == ["kept"]


def test_comes_back_after_a_kill(server: PrivatePostgres) -> None:
    write(server, "kept")
    server.kill()
    assert not server.answers()
    server.start()
    assert read(server) == ["kept"]


def test_a_stop_cuts_open_connections(server: PrivatePostgres) -> None:
    with psycopg.connect(server.url) as connection:
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_refuses_a_wrong_password(server: PrivatePostgres) -> None:
    wrong = server.url.replace(server.place.password, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_runs_as_an_unprivileged_user_in_a_folder_of_its_own(server: PrivatePostgres) -> None:
    assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    assert server.place.folder.stat().st_mode & 0o777 == 0o700


def test_its_pid_is_gone_after_a_stop(server: PrivatePostgres) -> None:
    pid = server.pid
    server.stop()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Refused):
        assert server.pid


READY = "42\n/data\n1700000000\n5432\n/tmp\n127.0.0.1\n  5432001    0\nready   \n"


@pytest.mark.parametrize(
    ("text", "pid", "expected"),
    [
        (READY, 42, True),
        (READY, 43, False),
        (READY.replace("ready", "starting"), 42, False),
        (READY.rsplit("\n", 2)[0], 42, False),
        ("", 42, False),
    ],
)
def test_ready_is_what_the_servers_own_file_says(text: str, pid: int, expected: bool) -> None:
    assert postgres.is_ready(text, pid) is expected


def test_no_change_of_user_for_an_ordinary_one() -> None:
    user = postgres.server_user()
    assert user.pw_uid != 0
    changed = postgres.identity(user)
    assert changed in ([], [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"])


def test_two_clusters_do_not_meet(server: PrivatePostgres) -> None:
    other = PrivatePostgres(safe=True)
    try:
        other.start()
        write(server, "here")
        with psycopg.connect(other.url) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute("SELECT * FROM note")
    finally:
        other.close()


def test_the_password_is_in_no_file_and_no_argument(server: PrivatePostgres) -> None:
    secret = server.place.password.encode()
    assert secret not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
    assert secret not in server.log.read_bytes()
    assert not any(secret in p.read_bytes() for p in server.place.folder.iterdir() if p.is_file())


def test_a_machine_without_a_server_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "INSTALLED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="sudo apt install postgresql"):
        postgres.programs()
    (tmp_path / "initdb").touch(mode=0o755)
    assert postgres.programs() == tmp_path


def test_the_newest_installed_server_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "INSTALLED", tmp_path)
    for version in ("9.6", "15", "17"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin/initdb").touch()
    assert postgres.programs() == tmp_path / "17/bin"
