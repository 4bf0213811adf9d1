"""The command line of the benchmarks, and that every case is there."""

from __future__ import annotations

from importlib import import_module

import pytest

from bench.__main__ import parse
from bench.cases import CASES


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
