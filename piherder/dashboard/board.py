"""The lane board: hosts down the side, lanes across, in each cell who holds it and who waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs import registry
from jobs.models import Lane, WaitingOn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hosts.glance import Glance
    from jobs.models import Job
    from piherder.dashboard.recent import Recent

MOST = 40  # hosts; beyond that only those with work are shown


@dataclass(frozen=True, slots=True)
class Column:
    """A lane: its name as the database has it, as people read it, and the work that takes it."""

    lane: str
    words: str
    kinds: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One lane of one host: its holder, None when it is free, and those who wait for it."""

    column: Column
    holder: Job | None
    waiting: tuple[Job, ...]

    @property
    def is_free(self) -> bool:
        """Whether the next one comes in."""
        return not (self.holder or self.waiting)


@dataclass(frozen=True, slots=True)
class Row:
    """One host with its cells, and its work that takes no lane."""

    glance: Glance
    cells: tuple[Cell, ...]
    others: tuple[Job, ...]

    @property
    def is_free(self) -> bool:
        """Whether nothing is going on."""
        return not self.others and all(cell.is_free for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Board:
    """The rows that are shown, work without a host, and how many free hosts are left out."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    without_host: tuple[Job, ...]
    hidden: int

    @property
    def has_others(self) -> bool:
        """Whether any host has work that takes no lane."""
        return any(row.others for row in self.rows)

    @property
    def width(self) -> int:
        """How many columns there are beside the hosts."""
        return len(self.columns) + self.has_others


def columns() -> tuple[Column, ...]:
    """The lanes that work on hosts declares, by name, and last the copying that one host allows once at a time."""
    lanes: dict[str, list[str]] = {}
    for family in registry.kinds():
        for lane in family.lanes if family.needs_host else ():
            lanes.setdefault(lane, []).append(family.label)
    copying = [family.label for family in registry.kinds() if family.mutex]
    names = [*sorted(lanes.items()), (Lane.FENCE, copying)]
    return tuple(Column(lane, lane.replace("_", " "), ", ".join(kinds)) for lane, kinds in names)


def board(hosts: Sequence[Glance], found: Recent) -> Board:
    """The board of these hosts."""
    across = columns()
    rows = [_row(glance, across, found) for glance in hosts]
    shown = rows if len(rows) <= MOST else [row for row in rows if not row.is_free]
    without_host = tuple(job for job in found.active if job.host_id is None)
    return Board(across, tuple(shown), without_host, len(rows) - len(shown))


def _row(glance: Glance, across: Iterable[Column], found: Recent) -> Row:
    host_id = glance.host.pk
    cells = tuple(
        Cell(
            column,
            found.holders.get((host_id, column.lane)),
            tuple(job for job in glance.active if waits_for(job, column.lane)),
        )
        for column in across
    )
    placed = {job.pk for cell in cells for job in (cell.holder, *cell.waiting) if job}
    return Row(glance, cells, tuple(job for job in glance.active if job.pk not in placed))


def waits_for(job: Job, lane: str) -> bool:
    """Whether a job waits until the host's copying is free; a request whose lane is taken never becomes a job."""
    family = registry.find(job.kind)
    return lane == Lane.FENCE and job.waiting_on == WaitingOn.LOCK and family is not None and family.mutex
