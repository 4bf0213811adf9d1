"""How far a copy is, and how far one came."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from hosts.meter import Meter, bytes_below, words
from hosts.rsync.output import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from jobs.registry import Run


@dataclass(slots=True)
class Heard:
    """Hears what the engine would."""

    said: list[tuple[int, int | None, str]] = field(default_factory=list)

    def progress(self, done: int, total: int | None = None, label: str = "") -> None:
        self.said.append((done, total, label))


def meter(heard: Heard | None = None) -> Meter:
    return Meter(cast("Run", heard or Heard()), "/srv: ")


def at(done: int, percent: int) -> Progress:
    return Progress(done, percent, speed=3_400_000, eta=65, files_done=120)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """63 bytes, of which 13 are there by two names."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "one").write_bytes(bytes(37))
    (tmp_path / "sub" / "two").write_bytes(bytes(13))
    os.link(tmp_path / "sub" / "two", tmp_path / "sub" / "three")
    return tmp_path


def test_the_engine_hears_bytes_their_total_and_words() -> None:
    heard = Heard()
    meter(heard).hear(at(500, 25))
    assert heard.said == [(500, 2000, "/srv: 3.4 MB/s, 120 files, 1:05 left")]


def test_the_total_is_unknown_at_first_and_not_forgotten_later() -> None:
    heard = Heard()
    hearing = meter(heard)
    for progress in (at(0, 0), at(50, 50), at(50, 0)):
        hearing.hear(progress)
    assert [total for _, total, _ in heard.said] == [None, 100, 100]


def test_words_leave_out_what_is_unknown() -> None:
    assert words(Progress(1, 1, speed=0, eta=None)) == "0.0 MB/s"


def test_what_lies_there_counts_by_each_of_its_names(tree: Path) -> None:
    assert bytes_below(tree) == (63, True)


def test_how_far_it_came_is_a_share_of_what_rsync_saw(tree: Path) -> None:
    stopped = meter()
    stopped.hear(at(10, 10))
    assert stopped.came_to(tree, 0) == "63 % copied"


def test_the_last_good_size_counts_while_rsync_saw_less(tree: Path) -> None:
    stopped = meter()
    stopped.hear(at(10, 50))
    assert stopped.came_to(tree, 630) == "10 % copied"


def test_a_copy_that_was_stopped_is_never_whole(tree: Path) -> None:
    assert meter().came_to(tree, 60) == "99 % copied"


def test_without_a_total_the_bytes_are_said(tree: Path) -> None:
    assert meter().came_to(tree, 0) == "63 B copied"


def test_a_tree_too_large_to_be_counted_in_time_is_at_least_what_rsync_said_last(tree: Path) -> None:
    stopped = meter()
    stopped.hear(at(40, 40))
    assert bytes_below(tree, 0) == (0, False)
    assert stopped.came_to(tree, 0, seconds=0) == "at least 40 % copied"


def test_what_vanishes_while_it_is_counted_is_passed_over(tmp_path: Path) -> None:
    assert bytes_below(tmp_path / "gone") == (0, True)
