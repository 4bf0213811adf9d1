"""Times, sizes, tables and errors in words."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.core.management.base import OutputWrapper
from django.db import OperationalError

from jobs.management.door import database_words, first_error, unknown_host, usage_sentence
from jobs.spans import ago, size, span, took
from jobs.terminal import table

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (86_399, "23 h"), (864_000, "10 d")],
)
def test_span_takes_the_largest_unit(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_ago_knows_past_future_now_and_never() -> None:
    assert ago(NOW - timedelta(minutes=3), NOW) == "3 min ago"
    assert ago(NOW + timedelta(hours=2), NOW) == "in 2 h"
    assert ago(NOW, NOW) == "now"
    assert ago(None, NOW) == "never"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.44, "0.4 s"), (10, "10 s"), (125, "2 min 05 s"), (3720, "1 h 02 min"), (-3, "0.0 s")]
)
def test_took(seconds: float, words: str) -> None:
    assert took(timedelta(seconds=seconds)) == words


def test_what_never_ran_took_nothing() -> None:
    assert took(None) == ""


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB"), (None, "unknown")]
)
def test_size(count: int | None, words: str) -> None:
    assert size(count) == words


def printed(*rows: tuple[str, str], heads: tuple[str, str] = ("name", "n")) -> str:
    """A table as it goes into a pipe."""
    out = io.StringIO()
    table(OutputWrapper(out), heads, rows, right=("n",))
    return out.getvalue()


def test_a_table_is_aligned_and_has_no_blanks_at_its_ends() -> None:
    assert printed(("a", "1"), ("long", "10")) == "name   n\na      1\nlong  10\n"


def test_a_table_takes_names_as_they_are() -> None:
    assert "[red]x[/red] :smile:" in printed(("[red]x[/red] :smile:", ""))


def test_a_table_without_rows_prints_nothing() -> None:
    assert printed() == ""


def test_a_table_without_names_has_no_head_line() -> None:
    assert printed(("a", "1"), heads=("", " ")) == "a  1\n"


def test_a_complaint_of_the_parser_becomes_a_sentence() -> None:
    assert usage_sentence("Error: unrecognized arguments: -x", "jobs") == (
        "Unrecognized arguments: -x: see herder jobs --help."
    )


def test_a_validation_names_its_field() -> None:
    assert first_error(ValidationError({"keep_last": ["Too small."]})) == "keep last: Too small."
    assert first_error(ValidationError({"__all__": ["No."]})) == "No."
    assert first_error(ValidationError("Plain.")) == "Plain."


def test_an_empty_database_is_told_from_one_that_is_away() -> None:
    assert "run ./herder migrate" in database_words(OperationalError("no such table: jobs_job"))
    assert "cannot be used (connection refused)" in database_words(OperationalError("connection refused\nmore"))


def test_an_unknown_host_is_told_with_the_known_ones() -> None:
    assert unknown_host("x", []).endswith("add one with ./herder add_host.")
    assert unknown_host("x", [f"pi{n}" for n in range(12)]).endswith("pi9 ….")
