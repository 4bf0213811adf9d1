"""`make demo` for real: once to its end, once stopped in the middle; nothing of it may be left either way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from piherder import env
from piherder.demo.place import left
from piherder.house.folder import CLONE

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 11
# The whole of it takes half a minute on two idle cores, and several times that beside other tests.
pytestmark = [pytest.mark.fault, pytest.mark.timeout(400)]


@contextmanager
def demo(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A demonstration whose caller's environment names servers that are not there."""
    theirs = {"REDIS_URL": "redis://127.0.0.1:1/0", "DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    own = env.child_environment(**theirs, PIHERDER_BACKUPS="/nonexistent", PIHERDER_DATA="/nonexistent")
    command = [sys.executable, "-m", "piherder.demo", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=CLONE, env=own, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def folder_in(text: str) -> Path:
    found = re.search(r"Everything lies in (\S+);", text)
    assert found, text
    return Path(found[1])


def require_nothing_left(folder: Path) -> None:
    assert left(folder) == []
    assert not folder.exists()


def test_every_step_is_proven_and_nothing_is_left() -> None:
    with demo("--exit", "--yes") as process:
        out, errors = process.communicate()
    assert (process.returncode, errors) == (0, ""), out
    assert len(re.findall(r"^ +ok, [\d.]+ s: ", out, re.MULTILINE)) == STEPS
    assert "at most 1 per host" in out
    assert "\x1b" not in out
    require_nothing_left(folder_in(out))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_ends_everything(number: signal.Signals) -> None:
    with demo("--exit") as process:
        assert process.stdout
        told = ""
        for line in process.stdout:
            told += line
            if "(backup on" in line and "running" in line:
                os.kill(process.pid, number)
                break
        rest, errors = process.communicate()
    assert (process.returncode, errors) == (130, ""), told + rest
    require_nothing_left(folder_in(told))


def test_a_step_that_is_not_proven_is_named_in_one_line() -> None:
    with demo("--exit") as process:
        assert process.stdout
        told = ""
        for line in process.stdout:
            told += line
            if line.startswith("[3 of"):
                remove_source(folder_in(told))
                break
        rest, errors = process.communicate()
    assert process.returncode == 1, told + rest
    assert re.fullmatch(r"demo: the step “[^”]+” failed: [^\n]+\n", errors)
    require_nothing_left(folder_in(told))


def remove_source(folder: Path) -> None:
    """Take the files of a host away, so that no backup of it can be good."""
    for path in sorted((folder / "porch" / "files").iterdir()):
        subprocess.run(["rm", "-rf", "--", str(path)], check=True)
    (folder / "porch" / "files").rmdir()
