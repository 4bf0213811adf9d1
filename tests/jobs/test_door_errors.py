"""Whatever goes wrong behind a command is one sentence on stderr with its exit code, and never a traceback."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError, OutputWrapper
from django.db import InterfaceError, OperationalError

from jobs.management import door
from jobs.management.door import INTERRUPTED, DoorCommand, plain, worst
from jobs.services import Refused
from piherder import env
from piherder.house.folder import CLONE
from tests.commands import herder, refused
from tests.factories import make_job
from tests.jobs.looks import ago

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable
    from pathlib import Path

OURS = sorted(name for name, app in get_commands().items() if app in {"jobs", "hosts", "piherder"})
READERS = ("hosts", "jobs", "schedules", "status")
FOR_ALL = {"version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks"}


class Odd(Exception):
    """A trouble that a command declares."""


class Broken(DoorCommand):
    """Does what the test says."""

    troubles = (Odd,)
    action: Callable[[], int] = staticmethod(lambda: 0)

    def work(self, **options: Any) -> int:
        """That."""
        return self.action()


def run(action: Callable[[], int]) -> tuple[int, str, str]:
    """Exit code and the two outputs of a command that does this."""
    out, err = io.StringIO(), io.StringIO()
    broken = Broken(stdout=OutputWrapper(out), stderr=OutputWrapper(err))  # type: ignore[arg-type]  # a wrapper is one
    broken.stdout, broken.stderr = OutputWrapper(out), OutputWrapper(err)
    broken.action = action
    code = broken.exit_code(["manage.py", "broken"])
    return code, out.getvalue(), err.getvalue()


def raising(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (CommandError("Do it so.", returncode=2), 2, "Do it so.\n"),
        (CommandError("It broke."), 1, "It broke.\n"),
        (Refused("It is busy.", "busy"), 3, "It is busy.\n"),
        (Refused("It is wrong.", "invalid"), 2, "It is wrong.\n"),
        (Refused("It is held.", "held"), 1, "It is held.\n"),
        (Refused("Try later.", "unavailable"), 1, "Try later.\n"),
        (Refused("It is over.", "over"), 1, "It is over.\n"),
        (ValidationError({"keep_last": ["Too small."]}), 2, "keep last: Too small.\n"),
        (ValidationError("Plain."), 2, "Plain.\n"),
        (Odd("Something odd."), 1, "Something odd.\n"),
        (KeyboardInterrupt(), INTERRUPTED, ""),
    ],
)
def test_an_error_has_its_code_and_its_sentence(error: BaseException, code: int, words: str) -> None:
    assert run(raising(error)) == (code, "", words)


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_fails_in_the_middle_is_one_sentence(error: type[Exception]) -> None:
    code, out, err = run(raising(error("server closed the connection unexpectedly\n\tThis probably means")))
    assert (code, out) == (1, "")
    assert err == (
        "The database cannot be used (server closed the connection unexpectedly): check that it runs, then try again.\n"
    )


def test_a_database_that_does_not_say_why(db: None) -> None:
    assert "(no reason given)" in run(raising(OperationalError()))[2]


def test_a_fault_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0)


@pytest.mark.parametrize("code", [0, 1, 3, 4, 5])
def test_the_code_of_the_work_is_that_of_the_command(code: int) -> None:
    assert run(lambda: code) == (code, "", "")


# --- what a shell may hand over


@pytest.mark.django_db
@pytest.mark.parametrize(
    "words",
    [
        ("generations", "\udcff"),
        ("test_host", "\udcff"),
        ("edit_host", "\udcff", "--port", "1"),
        ("jobs", "--kind", "\udcff"),
        ("hold", "--reason", "\udcff"),
    ],
)
def test_bytes_that_are_no_text_are_wrong_use(words: tuple[str, ...]) -> None:
    assert refused(*words) == "A word given here is no UTF-8 text: write it in UTF-8."


@pytest.mark.django_db
@pytest.mark.parametrize("number", ["0", "-1", "99999999999999999999999"])
@pytest.mark.parametrize("name", ["job", "cancel_job"])
def test_a_number_that_no_job_has(name: str, number: str) -> None:
    assert refused(name, number) == f"There is no job {number}: ./herder jobs lists them."


@pytest.mark.parametrize("number", ["x", "1.5", "", "²"])
@pytest.mark.parametrize("name", ["job", "cancel_job"])
def test_what_is_no_number_of_a_job(name: str, number: str) -> None:
    assert refused(name, number).startswith("Argument ID: invalid int value")


@pytest.mark.django_db
@pytest.mark.parametrize("number", ["-1", "99999999999999999999", "x", "1.5"])
def test_a_limit_that_is_none(number: str) -> None:
    assert refused("jobs", f"--limit={number}").startswith("Argument --limit: invalid natural value")


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "1e400", "", "5s"])
def test_a_timeout_that_is_none(seconds: str) -> None:
    assert refused("run_job", "backup", f"--timeout={seconds}").startswith("Argument --timeout: invalid positive value")


# --- every command


def parser_of(name: str) -> ArgumentParser:
    app = get_commands()[name]
    assert isinstance(app, str)
    return load_command_class(app, name).create_parser("herder", name)


@pytest.mark.parametrize("name", OURS)
def test_the_help_shows_our_options_only_and_explains_each(name: str) -> None:
    for action in parser_of(name)._actions:
        if action.dest in FOR_ALL:
            assert action.help == "==SUPPRESS=="
        elif action.option_strings and action.dest not in {"address", "port", "user", "host", "kind", "reason"}:
            assert action.help or action.metavar, action.option_strings


@pytest.mark.parametrize("name", OURS)
def test_an_unknown_option_is_one_sentence(name: str) -> None:
    ran = herder(name, "--nonsense")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.endswith(f": see herder {name} --help.\n")


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["hosts", "jobs", "schedules", "backup_root"])
def test_json_of_nothing_is_an_empty_list(name: str) -> None:
    ran = herder(name, "--json")
    assert (ran.code, ran.out, ran.err) == (0, "[]\n", "")


@pytest.mark.django_db
def test_moments_in_documents_are_iso_8601() -> None:
    job = make_job("chore")
    document = herder("job", str(job.pk), "--json").document
    assert document["created_at"] == job.created_at.isoformat()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00", document["created_at"])
    assert (document["finished_at"], document["duration_seconds"], document["host"]) == (None, None, None)


def test_what_json_does_not_know_is_written_as_text() -> None:
    assert plain(ago(seconds=0).tzinfo) == "UTC"


def test_documents_keep_their_letters() -> None:
    found = Broken(stdout=(out := io.StringIO()))
    found.emit({"name": "grün 🐑"})
    assert "grün 🐑" in out.getvalue()


def test_the_worst_of_no_codes_and_of_unknown_ones_is_success() -> None:
    assert (worst([]), worst([77])) == (0, 0)


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert door.me().words == "uid 4000000000"


# --- with a database that is not there, as processes


def command(url: str, *words: str) -> tuple[int, str, str]:
    """A command of an installation whose database is at this address."""
    environment = env.child_environment(DATABASE_URL=url)
    argv = [sys.executable, "manage.py", *words]
    done = subprocess.run(argv, cwd=CLONE, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_a_database_that_is_away_is_one_sentence_without_its_password() -> None:
    code, out, err = command("postgresql://herder:PLANTED@127.0.0.1:1/herder", "jobs")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("The database cannot be used (")
    assert "PLANTED" not in err


def test_status_says_so_in_a_document_too() -> None:
    code, out, err = command("postgresql://herder:PLANTED@127.0.0.1:1/herder", "status", "--json")
    assert (code, err) == (1, "")
    assert '"reachable": false' in out
    assert "PLANTED" not in out


def test_an_empty_database_names_the_command_that_fills_it(tmp_path: Path) -> None:
    code, out, err = command(f"sqlite:///{tmp_path / 'empty.sqlite3'}", "hosts")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "run ./herder migrate" in err
