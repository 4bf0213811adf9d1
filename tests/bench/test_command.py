"""The command line of the benchmarks, and that every case is there."""

from __future__ import annotations

import os
from importlib import import_module, reload
from typing import TYPE_CHECKING

import pytest
from celery import current_app

from bench import __main__ as command
from bench.__main__ import parse
from bench.cases import CASES
from bench.figures import Aim, Kind, Result
from bench.place import CaseFailed

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_everything_is_measured_when_nothing_is_named() -> None:
    assert parse([]).only is None


def test_cases_are_named_behind_only() -> None:
    options = parse(["--only", "jobs", "idle", "--quick"])
    assert (options.only, options.quick) == (["jobs", "idle"], True)


def test_an_unknown_case_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--only", "nothing"])
    said = capsys.readouterr().err
    assert all(name in said for name in CASES)


@pytest.mark.parametrize("name", CASES)
def test_every_case_can_be_run(name: str) -> None:
    assert callable(import_module(f"bench.cases.{CASES[name].module}").run)


def test_the_raw_application_is_nobodys_current_one() -> None:
    raw = reload(import_module("bench.raw"))
    assert raw.app.main == "raw"
    assert current_app.main != "raw"
    tasks = {"bench.noop", "bench.kept", "bench.started"}
    assert tasks <= set(raw.app.tasks)
    assert tasks.isdisjoint(current_app.tasks)


@pytest.fixture
def own_umask() -> Iterator[None]:
    """The command narrows it for its process."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("own_umask")
@pytest.mark.parametrize(("broken", "code"), [((), 0), (("idle",), 1), (("jobs", "idle"), 1)])
def test_a_case_that_failed_is_an_exit_code_although_others_have_many_lines(
    broken: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(name: str, embedded: bool, quick: bool) -> list[Result]:
        if name in broken:
            raise CaseFailed(name)
        return [Result(name, 1.0, "s", Aim(Kind.VALUE, 2.0))] * 3

    monkeypatch.setattr(command, "measure", measure)
    assert command.main(["--only", "jobs", "idle"]) == code
