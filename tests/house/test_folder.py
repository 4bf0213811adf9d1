"""The data folder: where it may lie, who may read it, and that it admits one stack."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from piherder.house import folder
from piherder.house.folder import Refused, State

if TYPE_CHECKING:
    from pathlib import Path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    data = folder.prepare(tmp_path / "deep/data")
    assert data.is_dir()
    assert mode(data) == 0o700


def test_one_that_others_could_read_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert mode(folder.prepare(tmp_path)) == 0o700


@pytest.mark.parametrize("inside", [".", "data", "deep/er/data"])
def test_is_refused_inside_the_clone(tmp_path: Path, inside: str) -> None:
    with pytest.raises(Refused, match="inside the clone"):
        folder.prepare(tmp_path / inside, clone=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_is_refused_behind_a_link_into_the_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    (tmp_path / "link").symlink_to(clone)
    with pytest.raises(Refused, match="inside the clone"):
        folder.prepare(tmp_path / "link/data", clone=clone)


def test_beside_the_clone_with_the_same_beginning_is_fine(tmp_path: Path) -> None:
    folder.prepare(tmp_path / "clone-data", clone=tmp_path / "clone")


def test_one_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="cannot be used: Not a directory; choose another with PIHERDER_DATA"):
        folder.prepare(tmp_path / "file/data")


HOLD = (
    "import sys; from pathlib import Path; from piherder.house import folder\nwith folder.only_one(Path(sys.argv[1])): "
)


def test_a_second_stack_is_refused_and_told_the_first_ones_process(tmp_path: Path) -> None:
    with folder.only_one(tmp_path):
        second = [sys.executable, "-c", HOLD + "pass", str(tmp_path)]
        done = subprocess.run(second, capture_output=True, text=True, cwd=folder.CLONE)
    assert done.returncode != 0
    assert f"already runs on {tmp_path} (process {os.getpid()})" in done.stderr


def test_a_killed_stack_leaves_the_folder_free(tmp_path: Path) -> None:
    first = [sys.executable, "-c", HOLD + "import os; os.kill(os.getpid(), 9)", str(tmp_path)]
    assert subprocess.run(first, cwd=folder.CLONE).returncode == -9
    assert not folder.is_running(tmp_path)
    with folder.only_one(tmp_path):
        assert folder.is_running(tmp_path)


def test_the_state_can_be_read_while_the_stack_runs(tmp_path: Path) -> None:
    state = State(7, "http://127.0.0.1:8000/", {"web": 8}, {"web": 2})
    assert folder.read_state(tmp_path) is None
    with folder.only_one(tmp_path):
        assert folder.read_state(tmp_path) is None
        folder.write_state(folder.state_path(tmp_path), state)
        assert folder.read_state(tmp_path) == state
    assert folder.read_state(tmp_path) is None


def test_a_socket_stays_in_its_folder_where_the_name_fits(tmp_path: Path) -> None:
    assert folder.socket_folder(tmp_path / "redis", "redis.sock") == tmp_path / "redis"


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_a_socket_with_too_long_a_name_moves_to_a_private_short_folder(tmp_path: Path, letter: str) -> None:
    short = folder.socket_folder(tmp_path / (letter * 90) / "redis", "redis.sock")
    try:
        assert mode(short) == 0o700
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(short / "redis.sock"))
        (short / "redis.sock").unlink()
    finally:
        short.rmdir()
