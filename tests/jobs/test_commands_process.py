"""Commands as processes: exit codes, what stands on which output, Ctrl-C, a reader that goes away."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from piherder import env
from piherder.house.folder import CLONE

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 60  # seconds for a process on a busy machine


class Shell:
    """`./herder` on an installation of its own that has neither Redis nor workers."""

    def __init__(self, folder: Path) -> None:
        self.env = env.child_environment(
            PIHERDER_DATA=str(folder),
            DATABASE_URL=f"sqlite:///{folder / 'db.sqlite3'}",
            REDIS_URL=f"unix://{folder / 'nobody.sock'}",
            PIHERDER_TEST_KINDS="1",
            PYTHONUNBUFFERED="1",
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        # A shell without job control starts what runs in its background with SIGINT ignored, and children inherit that.
        argv = ["env", "--default-signal=INT", sys.executable, "manage.py", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=CLONE, env=self.env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code and the two outputs."""
        with self.start(*words) as process:
            out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """An empty installation."""
    made = Shell(tmp_path_factory.mktemp("installation"))
    code, _, err = made.run("migrate", "--no-input", "--verbosity", "0")
    assert code == 0, err
    return made


def test_json_stands_alone_on_its_output(shell: Shell) -> None:
    code, out, err = shell.run("run_job", "noop", "--timeout", "0", "--json")
    assert (code, json.loads(out)["exit_code"]) == (5, 5)
    assert "Traceback" not in err


def test_wrong_use_is_one_line_and_code_2(shell: Shell) -> None:
    assert shell.run("jobs", "--nonsense") == (
        2, "", "Unrecognized arguments: --nonsense: see herder jobs --help.\n",
    )  # fmt: skip


def test_the_help_tells_the_exit_codes(shell: Shell) -> None:
    code, out, _ = shell.run("run_job", "--help")
    assert code == 0
    assert "3 already active or lane busy, 4 cancelled, 5 still pending" in re.sub(r"\s+", " ", out)


def test_ctrl_c_stops_the_following_and_not_the_job(shell: Shell) -> None:
    with shell.start("run_job", "sleep", "--param", "seconds=1", "--follow") as process:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    number = first.split()[1]
    assert second == f"job {number} (sleep): queued\n"
    assert process.returncode == 5
    assert f"Stopped following; the work goes on (./herder cancel_job {number} stops it).\n" in err
    assert json.loads(shell.run("job", number, "--json")[1])["status"] == "pending"


def test_a_reader_that_goes_away_leaves_no_traceback(shell: Shell) -> None:
    with shell.start("jobs", "--json") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        process.wait(PATIENCE)
