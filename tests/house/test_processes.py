"""Starting and ending one program."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from piherder import env
from piherder.house import processes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = processes.spawn(["sleep", "600"], tmp_path / "log", env.child_environment(), tmp_path)
    yield process
    processes.end(process, grace=0, number=signal.SIGKILL)


def status(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def test_the_pid_is_the_programs_own_and_leads_its_group(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.wait_until(lambda: status(sleeper.pid, "Name") == "sleep", 5)
    assert os.getpgid(sleeper.pid) == sleeper.pid


def test_end_returns_the_signal_as_exit_code(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.end(sleeper, grace=5) == -signal.SIGTERM
    assert processes.end(sleeper, grace=5) == -signal.SIGTERM


def test_alive_is_true_until_the_end(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.is_alive(sleeper.pid)
    sleeper.kill()  # a zombie until it is waited for
    assert processes.wait_until(lambda: not processes.is_alive(sleeper.pid), 5)


def test_children_are_those_of_the_process(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 600 & sleep 600 & wait"]
    parent = processes.spawn(command, tmp_path / "log", env.child_environment(), tmp_path)
    assert processes.wait_until(lambda: len(processes.children(parent.pid)) == 2, 5)
    family = processes.children(parent.pid)
    processes.end(parent, grace=5)
    assert processes.wait_until(lambda: not any(map(processes.is_alive, family)), 5)
    assert processes.children(parent.pid) == []


def test_waiting_ends_at_its_limit() -> None:
    assert not processes.wait_until(lambda: False, 0.05)


def test_the_tail_of_a_log_fits_into_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert processes.tail(log) == "no log"
    log.write_text("one\ntwo\nthree\nfour\n")
    assert processes.tail(log) == "two / three / four"


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes.cap(log, 10)
    log.write_text("small")
    processes.cap(log, 10)
    assert log.read_text() == "small"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
