"""kill -9 between any two steps: the last good generation is untouched and the next run works."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hosts.store import layout
from hosts.store.trash import empty_trash
from tests.hosts.store import build
from tests.hosts.store.build import finish, publish, snapshot, source_dir

CLONE = Path(__file__).resolve().parents[3]
BEFORE_RENAME = ("transfer", "manifest", "sealed", "sync", "rename")
AFTER_RENAME = ("sync_folder", "done")


def run_killed(root: Path, step: str) -> None:
    """Let a child write generation 2 and die at a step."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.hosts.store.die", str(root), step], cwd=CLONE, timeout=60, check=False
    )
    assert child.returncode == -signal.SIGKILL


@pytest.mark.fault
@pytest.mark.parametrize("step", BEFORE_RENAME)
def test_killed_before_the_rename_nothing_appears_and_the_next_run_works(root: Path, step: str) -> None:
    first = publish(root, 1, {"same": b"1", "old": b"1"})
    before = snapshot(first)
    run_killed(root, step)
    assert [g.path for g in layout.list_generations(source_dir(root))] == [first]
    partial = layout.take_over(source_dir(root), "next")
    second = finish(partial, 2, first)
    assert partial.adopted == "killed"
    assert snapshot(first) == before
    assert (second / "tree" / "new").read_bytes() == b"second"


@pytest.mark.fault
@pytest.mark.parametrize("step", AFTER_RENAME)
def test_killed_after_the_rename_the_generation_is_whole(root: Path, step: str) -> None:
    first = publish(root, 1, {"same": b"1"})
    before = snapshot(first)
    run_killed(root, step)
    old, new = layout.list_generations(source_dir(root))
    assert snapshot(old.path) == before
    assert new.info is not None
    assert new.info.files == 2
    assert layout.take_over(source_dir(root), "next").adopted == ""


@pytest.mark.fault
@pytest.mark.parametrize("ticks", [0, 1, 3])
def test_killed_in_a_removal_the_rest_goes_later(root: Path, ticks: int) -> None:
    publish(root, 1, {"same": b"1", "a/b": b"1", "a/c/d": b"1"})
    run_killed(root, f"trash{ticks}")
    (left,) = layout.list_generations(source_dir(root))
    assert left.sequence == 2
    assert list((root / ".trash").iterdir()) != []
    empty_trash(root)
    assert list((root / ".trash").iterdir()) == []
    assert (left.path / "tree" / "same").read_bytes() == b"1"


@pytest.mark.fault
def test_the_step_to_die_at_matters(root: Path) -> None:
    publish(root, 1, {"same": b"1"})
    child = subprocess.run(
        [sys.executable, "-m", "tests.hosts.store.die", str(root), "never"], cwd=CLONE, timeout=60, check=True
    )
    assert child.returncode == 0
    assert len(layout.list_generations(build.source_dir(root))) == 2
