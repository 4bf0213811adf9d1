"""Medians, percentiles, verdicts and the table of the benchmarks."""

from __future__ import annotations

import json

import pytest

from bench.figures import HEADINGS, Aim, Kind, Result, median, per_hour, percentile, rows, shown, table

AT_MOST = Aim(Kind.RATIO, 1.10)
AT_LEAST = Aim(Kind.RATIO, 0.35, at_least=True)
SLOWER = Aim(Kind.DIFFERENCE, 50)
ALONE = Aim(Kind.VALUE, 30)


def result(ours: float, aim: Aim, theirs: float | None = None) -> Result:
    return Result("a thing", ours, "s", aim, theirs, rounds=5)


def test_the_median_of_an_even_number_lies_between_the_middle_two() -> None:
    assert median([4, 1, 3, 2]) == 2.5


def test_one_wild_round_does_not_move_the_median_far() -> None:
    assert median([1, 2, 300, 1, 2]) == 2


def test_there_is_no_median_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing"):
        median([])


@pytest.mark.parametrize(("share", "expected"), [(0.95, 19), (0.5, 10), (1, 20), (0.01, 1)])
def test_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile(range(20, 0, -1), share) == expected


@pytest.mark.parametrize(("numbers", "share"), [([], 0.5), ([1.0], 0), ([1.0], 1.1)])
def test_percentile_refuses_what_has_none(numbers: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile(numbers, share)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (result(1.1, AT_MOST, 1.0), "met"),
        (result(1.2, AT_MOST, 1.0), "missed"),
        (result(35, AT_LEAST, 100), "met"),
        (result(34, AT_LEAST, 100), "missed"),
        (result(60, SLOWER, 10), "met"),
        (result(61, SLOWER, 10), "missed"),
        (result(30, ALONE), "met"),
        (result(30.1, ALONE), "missed"),
    ],
)
def test_a_verdict_compares_in_the_aims_own_terms(found: Result, verdict: str) -> None:
    assert found.verdict == verdict


def test_a_side_that_measured_zero_never_makes_a_good_ratio() -> None:
    assert result(1, AT_MOST, 0).verdict == "missed"


def test_an_hour_is_its_rest_and_its_rounds() -> None:
    assert per_hour(resting=10, seconds=60, one_round=100, rounds=4) == 10 * 60 + 400


@pytest.mark.parametrize(
    ("number", "text"),
    [(1234.5, "1,234 s"), (12.34, "12.3 s"), (1.234, "1.23 s"), (0.0123, "0.012 s"), (None, "")],
)
def test_numbers_are_shown_with_about_three_digits(number: float | None, text: str) -> None:
    assert shown(number, "s") == text


def test_a_row_says_ours_theirs_ratio_aim_and_verdict() -> None:
    assert rows([result(1.2, AT_MOST, 1.0)]) == [("a thing", "1.20 s", "1.00 s", "1.20", "≤ 1.1", "missed", "5")]


def test_a_difference_is_shown_with_its_sign() -> None:
    (row,) = rows([result(61, SLOWER, 10)])
    assert row[3:5] == ("+51 s", "+50 s")


def test_what_stands_alone_has_no_ratio() -> None:
    (row,) = rows([result(20, ALONE)])
    assert row[2:5] == ("", "", "≤ 30 s")


def test_an_aim_from_below_says_so() -> None:
    (row,) = rows([result(35, AT_LEAST, 100)])
    assert row[4] == "≥ 0.35"


def test_the_table_is_aligned_markdown_with_its_notes_below() -> None:
    noted = Result("another", 1, "s", ALONE, note="why")
    lines = table([result(1.2, AT_MOST, 1.0), noted]).splitlines()
    assert len({len(line) for line in lines[:4]}) == 1
    assert lines[0].split("|")[1].strip() == HEADINGS[0]
    assert lines[4:] == ["", "- another: why"]


def test_a_result_survives_json() -> None:
    before = result(1.2, AT_MOST, 1.0)
    data = json.loads(json.dumps(before.to_json()))
    assert Result.from_json(data) == before
    assert (data["figure"], data["verdict"]) == (1.2, "missed")
