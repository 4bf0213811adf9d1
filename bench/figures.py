"""What is done with the numbers: medians, percentiles, verdicts, the table and the JSON. Pure functions."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Kind(StrEnum):
    """How a figure is judged: ours over theirs, ours minus theirs, or ours alone."""

    RATIO = "ratio"
    DIFFERENCE = "difference"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure should reach: at most `limit`, or at least where `at_least`."""

    kind: Kind
    limit: float
    at_least: bool = False

    def met(self, figure: float) -> bool:
        """True when the figure reaches the aim."""
        return figure >= self.limit if self.at_least else figure <= self.limit


@dataclass(frozen=True, slots=True)
class Result:
    """One measured line: medians of `rounds` rounds in `unit`; `theirs` is None where ours stands alone."""

    name: str
    ours: float
    unit: str
    aim: Aim
    theirs: float | None = None
    rounds: int = 1
    note: str = ""

    @property
    def figure(self) -> float:
        """The number that is compared with the aim."""
        if self.theirs is None or self.aim.kind is Kind.VALUE:
            return self.ours
        if self.aim.kind is Kind.DIFFERENCE:
            return self.ours - self.theirs
        return self.ours / self.theirs if self.theirs else math.inf

    @property
    def verdict(self) -> str:
        """`met` or `missed`."""
        return "met" if self.aim.met(self.figure) else "missed"

    def to_json(self) -> dict[str, Any]:
        """All of it, with what follows from it."""
        return {**asdict(self), "figure": self.figure, "verdict": self.verdict}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Result:
        """The inverse of `to_json`."""
        aim = Aim(Kind(data["aim"]["kind"]), data["aim"]["limit"], data["aim"]["at_least"])
        own = {key: data[key] for key in ("name", "ours", "unit", "theirs", "rounds", "note")}
        return cls(**own, aim=aim)


def median(numbers: Iterable[float]) -> float:
    """The middle one. Raises ValueError when there is none."""
    found = list(numbers)
    if not found:
        raise ValueError("There is no median of nothing.")
    return float(statistics.median(found))


def percentile(numbers: Iterable[float], share: float) -> float:
    """The smallest number that at least `share` (0 to 1) of all do not exceed (nearest rank). Raises ValueError."""
    found = sorted(numbers)
    if not found or not 0 < share <= 1:
        raise ValueError("A percentile needs numbers, and a share above 0 and up to 1.")
    return float(found[math.ceil(share * len(found)) - 1])


def per_hour(resting: float, seconds: float, one_round: float, rounds: int) -> float:
    """Amount per hour of something that rests at `resting` per `seconds` and works `rounds` times an hour.

    `one_round` is what a round costs beyond resting.
    """
    return resting / seconds * 3600 + one_round * rounds


def shown(number: float | None, unit: str) -> str:
    """A number with its unit, three digits or so; "" for none."""
    if number is None:
        return ""
    digits = 0 if abs(number) >= 100 else 1 if abs(number) >= 10 else 2 if abs(number) >= 0.1 else 3
    return f"{number:,.{digits}f} {unit}".strip()


def aim_words(result: Result) -> str:
    """The aim as in `≤ 1.10`, `+50 ms`, `≤ 30 s`."""
    aim = result.aim
    if aim.kind is Kind.DIFFERENCE:
        return f"+{aim.limit:g} {result.unit}"
    sign = "≥" if aim.at_least else "≤"
    return f"{sign} {aim.limit:g}" + (f" {result.unit}" if aim.kind is Kind.VALUE else "")


def figure_words(result: Result) -> str:
    """The figure in the aim's terms: a bare ratio, a signed difference, or nothing where ours says it already."""
    if result.aim.kind is Kind.VALUE:
        return ""
    if result.aim.kind is Kind.DIFFERENCE:
        return f"{result.figure:+.0f} {result.unit}"
    return f"{result.figure:.2f}"


HEADINGS = ("what", "PiHerder", "beside it", "ratio", "aim", "verdict", "rounds")


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The cells of the table, one row per result, in the order of HEADINGS."""
    return [
        (
            result.name,
            shown(result.ours, result.unit),
            shown(result.theirs, result.unit),
            figure_words(result),
            aim_words(result),
            result.verdict,
            str(result.rounds),
        )
        for result in results
    ]


def table(results: Sequence[Result]) -> str:
    """The table in Markdown, columns aligned, with the notes below it."""
    cells = [HEADINGS, *rows(results)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    notes = [f"- {result.name}: {result.note}" for result in results if result.note]
    return "\n".join([lines[0], rule, *lines[1:], *([""] if notes else []), *notes])
