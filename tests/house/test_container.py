"""What a container of the image runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from piherder.house import container
from piherder.house.container import MANAGE, command, wait_for_database
from piherder.house.ports import free_port
from piherder.house.postgres import PrivatePostgres


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIHERDER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PIHERDER_RUNTIME", str(tmp_path / "run"))


@pytest.mark.parametrize("role", ["web", "worker", "beat"])
def test_a_role_becomes_its_program(role: str) -> None:
    argv = command([role])
    assert Path(argv[0]).parent == Path(sys.executable).parent
    assert argv[0].endswith("gunicorn") == (role == "web")
    assert role == "web" or role in argv


def test_the_web_listens_where_the_image_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_BIND", "0.0.0.0")
    monkeypatch.setenv("PIHERDER_PORT", "8000")
    assert "0.0.0.0:8000" in command(["web"])


def test_a_worker_may_serve_another_queue() -> None:
    assert command(["worker", "--queue", "nmap"])[-2:] == ("--queues", "nmap")
    assert "--queues" not in command(["worker"])


def test_an_option_that_no_role_has_is_refused() -> None:
    with pytest.raises(SystemExit):
        command(["beat", "--queue", "nmap"])


@pytest.mark.parametrize("words", [["herder", "status", "--json"], ["status", "--json"]])
def test_any_other_word_is_a_command_of_herder(words: list[str]) -> None:
    assert command(words) == (*MANAGE, "status", "--json")


def test_a_shell_is_a_shell() -> None:
    assert command(["sh", "-c", "id"]) == ("sh", "-c", "id")


@pytest.mark.parametrize("role", ["web", "worker", "beat"])
def test_health_asks_the_role_that_was_started(role: str) -> None:
    container.note_role(role)
    assert command(["health"]) == (*MANAGE, "healthcheck", role)


def test_a_container_without_a_role_is_well() -> None:
    assert command(["health"]) == ("true",)


def test_waiting_goes_on_until_the_database_takes_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    server = PrivatePostgres()
    monkeypatch.setenv("DATABASE_URL", server.url)
    with pytest.raises(SystemExit, match=r"The database cannot be used \(.+\): look at its container"):
        wait_for_database(0, pause=0)
    try:
        server.start()
        wait_for_database(0)
    finally:
        server.close()


def test_a_refusal_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://piherder:s3cr3t-word@127.0.0.1:{free_port()}/piherder")
    assert "s3cr3t-word" not in container.database_refusal()
    assert "refused" in container.database_refusal()


def test_sqlite_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL")
    assert container.database_refusal() == ""


def test_waiting_is_over_at_the_first_answer() -> None:
    answers = ["starting up", "starting up", ""]
    wait_for_database(60, lambda: answers.pop(0), pause=0)
    assert answers == []


def test_a_wrong_setting_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://x")
    with pytest.raises(SystemExit, match="DATABASE_URL must start with"):
        container.main(["web"])
