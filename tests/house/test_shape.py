"""The size checks of `make lint` count what they say they count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import shape

SMALL = "def f():\n    # why\n\n    return 1\n"


def long_function(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


def short(product: str, tests: str) -> list[str]:
    figures = shape.measure({Path("jobs/a.py"): product}, {Path("tests/a.py"): tests})
    return [figure.name for figure in figures if figure.is_short]


def test_blank_lines_and_comments_are_no_code() -> None:
    assert shape.code_lines(SMALL) == 2


def test_a_functions_length_runs_from_def_to_its_last_line() -> None:
    assert list(shape.functions(SMALL)) == [("f", 4)]


def test_small_code_with_enough_tests_is_fine() -> None:
    assert short(SMALL, "def test_a():\n    pass\n    pass\n") == []


@pytest.mark.parametrize(
    ("product", "tests", "name"),
    [
        (long_function(10), long_function(20), "function lines, median"),
        (long_function(46), long_function(80), "function lines, 95 %"),
        (long_function(51), long_function(80), "functions over 50 lines, %"),
        ("x = 1\n" * 301, long_function(500), "file lines, 95 %"),
        ("x = 1\n" * 601, long_function(900), "file lines, largest"),
        (SMALL * 3, SMALL * 3, "test lines per product line"),
        (SMALL, long_function(13).replace("f()", "test_f()"), "test function lines, median"),
    ],
)
def test_each_bar_can_be_missed(product: str, tests: str, name: str) -> None:
    assert name in short(product, tests)


def test_hidden_folders_and_migrations_are_left_out(tmp_path: Path) -> None:
    for name in (".venv/x.py", "jobs/migrations/0001.py", "jobs/models.py", "tests/t.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    assert [str(path) for path in shape.sources(tmp_path)] == ["jobs/models.py", "tests/t.py"]


def test_the_exit_code_tells_a_missed_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(SMALL)
    assert shape.main(tmp_path) == 1
    assert "SHORT  test lines per product line" in capsys.readouterr().out
