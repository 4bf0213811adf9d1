"""A small set of the demonstration's files, and real rsync copies of it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from piherder.demo import files

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 100


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Files of a host."""
    folder = tmp_path / "source"
    folder.mkdir()
    files.fill(folder, 1, COUNT)
    return folder


def rsync(source: Path, goal: Path, *options: str) -> Path:
    """`goal`, made a copy of `source` as a backup is one."""
    goal.mkdir(exist_ok=True)
    flags = ["-aHAX", "--numeric-ids", "--sparse", "--delete", *options]
    subprocess.run(["rsync", *flags, f"{source}/", f"{goal}/"], check=True)
    return goal
