"""How tables are written for a person at a terminal, and what else needs rich."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.log_view import CONTROLS, ESCAPES
from jobs.models import Job, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.core.management.base import OutputWrapper
    from rich.console import JustifyMethod

GAP, LEAST, SHORTEST = 2, 30, 6  # columns: between two cells, for the last one, and of a cell that was cut
STYLES = {
    Status.PENDING: "yellow",
    Status.RUNNING: "cyan",
    Status.SUCCEEDED: "green",
    Status.FAILED: "red",
    Status.CANCELLED: "dim",
}
Cell = str | Text


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
