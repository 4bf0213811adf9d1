"""The lane board: who holds, who waits, what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hosts.glance import glances_with
from jobs import registry
from jobs.models import Lane, WaitingOn
from piherder.dashboard import board as boards
from piherder.dashboard.board import board, columns
from piherder.dashboard.recent import recent
from tests.factories import change, fence, make_host, make_job, make_node, running_on, waiting_on

if TYPE_CHECKING:
    from jobs.models import Job
    from piherder.dashboard.board import Board, Row

pytestmark = pytest.mark.django_db


def drawn() -> Board:
    found = recent()
    return board(glances_with(found.active), found)


def held(row: Row) -> dict[str, list[Job]]:
    """Holder and waiting ones of each lane that is not free."""
    cells = [cell for cell in row.cells if not cell.is_free]
    return {cell.column.lane: [job for job in (cell.holder, *cell.waiting) if job] for cell in cells}


def test_every_lane_of_work_on_hosts_has_a_column_and_copying_is_the_last() -> None:
    lanes = {lane for family in registry.kinds() if family.needs_host for lane in family.lanes}
    found = columns()
    assert [column.lane for column in found] == [*sorted(lanes), Lane.FENCE]
    assert next(column for column in found if column.lane == "backup").kinds == "Back up, Verify backups, Restore"
    assert "host facts" in {column.words for column in found}


def test_a_running_job_is_in_each_lane_that_it_holds() -> None:
    busy, free = make_host("pi1"), make_host("pi2")
    job = running_on(make_node(), make_job("backup", busy))
    fence(job)
    found = drawn()
    assert [held(row) for row in found.rows] == [{"backup": [job], Lane.FENCE: [job]}, {}]
    assert [row.is_free for row in found.rows] == [False, True], free


def test_who_waits_for_the_copying_stands_there_and_in_its_own_lane() -> None:
    host = make_host("pi1")
    job = waiting_on(WaitingOn.LOCK, make_job("backup", host))
    (row,) = drawn().rows
    assert held(row) == {"backup": [job], Lane.FENCE: [job]}
    assert next(cell for cell in row.cells if cell.column.lane == Lane.FENCE).holder is None


def test_who_waits_for_the_host_does_not_wait_for_a_lane() -> None:
    job = waiting_on(WaitingOn.HOST, make_job("backup", make_host("pi1")))
    (row,) = drawn().rows
    assert held(row) == {"backup": [job]}


def test_lanes_come_from_the_rows_and_not_from_the_declaration() -> None:
    job = running_on(make_node(), make_job("backup", make_host("pi1")))
    job.lanes.all().delete()
    (row,) = drawn().rows
    assert (held(row), row.others) == ({}, (job,))
    assert drawn().has_others
    assert not row.is_free


def test_work_without_a_host_and_of_unknown_kinds_is_shown() -> None:
    loose = make_job("retention")
    odd = change(waiting_on(WaitingOn.LOCK, make_job("backup", make_host("pi1"))), kind="gone")
    found = drawn()
    assert found.without_host == (loose,)
    assert held(found.rows[0]) == {"backup": [odd]}
    assert not found.has_others
    assert found.width == len(columns())


def test_of_a_large_herd_only_those_with_work_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "MOST", 3)
    hosts = [make_host(f"pi{number}") for number in range(3)]
    assert (len(drawn().rows), drawn().hidden) == (3, 0)
    hosts.append(make_host("pi9"))
    make_job("host_facts", hosts[1])
    found = drawn()
    assert ([row.glance.host for row in found.rows], found.hidden) == ([hosts[1]], 3)
