"""The runner of the tests gives them servers of their own, and tells whether they passed."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from piherder.house import __main__ as house
from piherder.house import folder
from tests import suite

if TYPE_CHECKING:
    from pathlib import Path

SHOW = "import json, os, pathlib; pathlib.Path('{}').write_text(json.dumps(dict(os.environ)))"


def environment_given(kind: str, scratch: Path) -> dict[str, str]:
    shown = scratch / "environment"
    assert suite.run(kind, scratch, ["-c", SHOW.format(shown)]) == 0
    found: dict[str, str] = json.loads(shown.read_text())
    return found


def test_the_callers_servers_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere/0")
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/db")
    found = environment_given("sqlite", tmp_path)
    assert found["DATABASE_URL"] == f"sqlite:///{tmp_path}/db.sqlite3"
    assert found["REDIS_URL"] == f"unix://{tmp_path}/redis/redis.sock"
    assert found["PIHERDER_DATA"] == str(tmp_path)


def test_postgresql_is_one_that_only_this_run_owns(tmp_path: Path) -> None:
    assert environment_given("postgresql", tmp_path)["DATABASE_URL"].startswith("postgresql://piherder:")


def test_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    assert suite.run("sqlite", tmp_path, ["-c", "raise SystemExit(3)"]) == 3


def test_the_scratch_folder_is_gone_afterwards() -> None:
    with suite.scratch() as scratch:
        (scratch / "deep").mkdir()
    assert not scratch.exists()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the suite would have run, each with its database."""
    seen: list[list[str]] = []

    def run(kind: str, _folder: Path, command: list[str]) -> int:
        seen.append([kind, *command])
        return 0

    monkeypatch.setattr(suite, "run", run)
    return seen


def test_the_lab_is_no_part_of_the_ordinary_tests(ran: list[list[str]]) -> None:
    assert suite.main([]) == 0
    assert [command[0] for command in ran] == ["postgresql", "sqlite"]
    assert all(f"--ignore={suite.LAB}" in command for command in ran)


def test_the_lab_is_run_once_and_its_files_stay_whole(ran: list[list[str]]) -> None:
    assert suite.main(["--lab", "--yes", "-x"]) == 0
    (command,) = ran
    assert command[-2:] == [suite.LAB, "-x"]
    assert "loadfile" in command


def test_a_part_of_the_lab_can_be_named(ran: list[list[str]]) -> None:
    suite.main(["--lab", "tests/lab/test_lab.py"])
    assert suite.LAB not in ran[0]


def test_a_failing_test_fails_the_run(tmp_path: Path) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text("def test_broken() -> None:\n    assert False\n")
    options = ["-p", "no:cacheprovider", "-n", "0", "--rootdir", str(tmp_path), str(broken)]
    assert suite.main(["--only", "sqlite", *options]) == 1
    broken.write_text("def test_fine() -> None:\n    assert True\n")
    assert suite.main(["--only", "sqlite", "--yes", *options]) == 0


@pytest.mark.django_db
def test_the_first_administrator_is_made_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from django.contrib.auth.models import User

    for password in ("first-Secret", "second-Secret"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(password))
        assert house.main(["first-admin"]) == 0
    assert capsys.readouterr().out.split() == ["created", "exists"]
    admin = User.objects.get(username="admin")
    assert [admin.check_password(each) for each in ("first-Secret", "second-Secret")] == [True, False]


def test_migrating_is_for_a_stopped_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIHERDER_DATA", str(tmp_path))
    assert house.main(["may-migrate"]) == 0
    with folder.only_one(tmp_path):
        assert house.main(["may-migrate"]) == 1
    assert "stop it before you change its database" in capsys.readouterr().err


def test_wrong_use_of_the_house_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert house.main([]) == 2
    assert "Use: " in capsys.readouterr().err
