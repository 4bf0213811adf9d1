"""A job's log as the live page shows it: head and tail, the gap between them, no colour codes, no endless lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.logs import TAIL
from jobs.models import JobLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from jobs.models import Job

# ECMA-48: control sequences, operating system commands, and the other two-character escapes.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
STEP = "== "  # begins the line that a step writes
LONGEST = 2000  # characters of one line on the page
CHUNK = 2000  # a page that followed so many lines starts over with head and tail, so that it does not grow without end


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `missing` lines before it are only in the whole log."""

    number: int
    at: datetime
    text: str
    missing: int


@dataclass(frozen=True, slots=True)
class LogView:
    """Lines to show and the number of the last one; `fresh` lines are added to a page that shows those before."""

    lines: tuple[Line, ...]
    last: int
    fresh: bool


def plain(text: str) -> str:
    """`text` without terminal escapes, control and direction characters, cut at `LONGEST`."""
    shown = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", ESCAPES.sub("", text))
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]} … (the rest of this line is in the whole log)"


def steps(job: Job) -> list[JobLine]:
    """The steps that a job has begun, as its log names them; `text` is the bare name."""
    found = list(JobLine.objects.filter(job=job, text__startswith=STEP).order_by("number"))
    for line in found:
        line.text = plain(line.text.removeprefix(STEP))
    return found


def numbered(rows: Iterable[JobLine], after: int) -> Iterator[Line]:
    """Rows as lines that know how many are missing before them."""
    for row in rows:
        yield Line(row.number, row.at, plain(row.text), row.number - after - 1)
        after = row.number


def look(job: Job, after: int = 0) -> LogView:
    """What a page that shows the lines up to `after` needs; everything for 0, or when it fell behind or grew long."""
    rows = JobLine.objects.filter(job=job).order_by("number")
    starts_over = job.log_lines < after or job.log_lines - after > TAIL or job.log_lines // CHUNK != after // CHUNK
    first = 0 if starts_over else after
    lines = tuple(numbered(rows.filter(number__gt=first), first))
    return LogView(lines, lines[-1].number if lines else first, fresh=bool(after) and not starts_over)
