"""The walk: a step that is not proven ends it with its name, and nothing after it runs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from piherder.demo import story as steps
from piherder.demo import walk
from piherder.demo.house import House
from piherder.demo.proof import Disproved
from piherder.demo.stage import PlainStage
from piherder.demo.walk import StepFailed
from piherder.house.servers import PrivateRedis
from piherder.house.stack import Options

if TYPE_CHECKING:
    from pathlib import Path

STORY: Any = None  # the steps here use none


def shown() -> tuple[PlainStage, io.StringIO]:
    out = io.StringIO()
    return PlainStage(Console(file=out, width=200)), out


def good(_: object) -> str:
    return "7 files compared"


def bad(_: object) -> str:
    raise Disproved("the last good generation: a file\nis not as it was")


def broken(_: object) -> str:
    raise ZeroDivisionError


def test_proven_steps_become_rows() -> None:
    stage, out = shown()
    rows = walk.walk(STORY, stage, (("One", good), ("Two", good)))
    assert [(name, proof) for name, proof, _ in rows] == [("One", "7 files compared"), ("Two", "7 files compared")]
    assert "[2 of 2] Two" in out.getvalue()


def test_the_first_step_that_is_not_proven_ends_the_walk_with_its_name() -> None:
    stage, out = shown()
    with pytest.raises(StepFailed) as failed:
        walk.walk(STORY, stage, (("One", good), ("Two", bad), ("Three", good)))
    expected = "the step “Two” failed: the last good generation: a file is not as it was"
    assert str(failed.value) == expected
    assert "Three" not in out.getvalue()


def test_a_bug_in_a_step_fails_it_too() -> None:
    with pytest.raises(StepFailed, match="“One” failed: ZeroDivisionError"):
        walk.walk(STORY, shown()[0], (("One", broken),))


def test_ctrl_c_is_no_failure_of_a_step() -> None:
    def interrupt(_: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        walk.walk(STORY, shown()[0], (("One", interrupt),))


def test_every_step_has_a_name_of_its_own() -> None:
    names = [name for name, _ in steps.STEPS]
    assert len(names) == len(set(names)) == 11


def partial(base: Path, attempt: str) -> Path:
    tree = base / f".partial-{attempt}" / "tree"
    tree.mkdir(parents=True)
    return tree


def test_arrived_bytes_are_those_of_the_big_file_under_rsyncs_temporary_name(tmp_path: Path) -> None:
    tree = partial(tmp_path, "a")
    (tree / ".film.mkv.Xy12").write_bytes(b"x" * 10)
    (tree / "other").write_bytes(b"x" * 99)
    assert steps.arrived(tmp_path) == 10


def test_nothing_has_arrived_before_the_copy_began(tmp_path: Path) -> None:
    assert steps.arrived(tmp_path) == 0


def test_a_worker_that_is_down_is_not_killed(tmp_path: Path) -> None:
    house = House(Options(tmp_path), PrivateRedis(tmp_path / "redis"), print)
    with pytest.raises(Disproved, match="the worker was not running when it was to be killed"):
        steps.worker_to_kill(house)
    house.stop()
