"""How times, sizes and tables are written for a person at a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, cast

from django.utils import timezone
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.log_view import CONTROLS, ESCAPES
from jobs.models import Job, Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from django.core.management.base import OutputWrapper
    from rich.console import JustifyMethod

GAP, LEAST, SHORTEST = 2, 30, 6  # columns: between two cells, for the last one, and of a cell that was cut
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
STYLES = {
    Status.PENDING: "yellow",
    Status.RUNNING: "cyan",
    Status.SUCCEEDED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "dim",
}
Cell = str | Text


def span(seconds: float) -> str:
    """A length of time in its largest unit, rounded down: "45 s", "3 min", "2 h", "5 d"."""
    whole = int(abs(seconds))
    for length, unit in UNITS:
        if whole >= length:
            return f"{whole // length} {unit}"
    return "0 s"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """`moment` as seen from `now` (default: this moment): "3 min ago", "in 2 h", "now" or "never"."""
    if moment is None:
        return "never"
    seconds = ((now or timezone.now()) - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(seconds)}"


def took(length: timedelta | None) -> str:
    """How long something ran: "0.4 s", "45 s", "2 min 05 s", "1 h 02 min"; "" when it never ran."""
    if length is None:
        return ""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(count: int | None) -> str:
    """Bytes in binary units: "512 B", "1.5 GiB"; "unknown" for None."""
    if count is None:
        return "unknown"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def stamp(moment: datetime) -> str:
    """Local date and time to the minute."""
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M}"


def state(job: Job) -> Text:
    """A job's state in words and colour."""
    return Text(job.state_words.lower(), STYLES[Status(job.status)])


def harmless(text: str) -> str:
    """`text` from a host for a terminal: no escape sequence, no control or direction character, no line break."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", ESCAPES.sub("", text)).replace("\n", " ")


def live_console(*, stderr: bool = False) -> Console:
    """A rich console on the terminal itself: Django's wrapper ends every write with a line break."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def table(
    out: OutputWrapper, heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, right: Sequence[str] = ()
) -> None:
    """Print aligned columns; those named in `right` are set flush right, only the last one may be folded."""
    if not rows:
        return
    grid = Table(
        box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=any(map(str.strip, heads))
    )
    cells = [[cell if isinstance(cell, Text) else Text(harmless(cell)) for cell in row] for row in rows]
    widths = [max(cell_len(head), *(row[place].cell_len for row in cells)) for place, head in enumerate(heads)]
    sheet = paper(None if out.isatty() else sum(widths) + GAP * len(widths))
    room = sheet.width - GAP * (len(heads) - 1) - min(widths[-1], LEAST)
    for place, (head, width) in enumerate(zip(heads, [*fitted(widths[:-1], room), None], strict=True)):
        last = place == len(heads) - 1
        side: JustifyMethod = "right" if head in right else "left"
        grid.add_column(head, justify=side, width=width, no_wrap=not last, overflow="fold" if last else "ellipsis")
    for row in cells:
        grid.add_row(*row)
    sheet.print(grid)
    text = cast("io.StringIO", sheet.file).getvalue()
    out.write("\n".join(line.rstrip() for line in text.splitlines()))


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Widths of columns that fit into `room` together: the widest are shortened first, none below `SHORTEST`."""
    found = list(widths)
    while found and sum(found) > room and max(found) > SHORTEST:
        found[found.index(max(found))] -= 1
    return found


def paper(width: int | None) -> Console:
    """What a table is written on: so many columns, plain; None is the terminal, with its width and colours."""
    return Console(file=io.StringIO(), force_terminal=width is None, width=width, markup=False, highlight=False)
