"""The supervisor, with small programs in place of web, worker, beat and Redis."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from piherder import env
from piherder.house import processes, supervisor
from piherder.house.folder import CLONE, State, read_state
from piherder.house.processes import is_alive as alive
from piherder.house.processes import wait_until
from piherder.house.supervisor import NotReady, Program, Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own is mounted")

# Writes its pid and its child's where the test looks (whole or not at all: the file says "ready"), and its name when it
# is asked to stop.
POLITE = """
name=$1; trap 'echo $name >> stopped; kill $child; exit 0' TERM
sleep 600 & child=$!; echo $$ $child > $name.new; mv $name.new $name.pids; wait
"""
STUBBORN = "trap '' TERM; sleep 600 & echo $$ $! > $1.new; mv $1.new $1.pids; while :; do wait; done"


def program(folder: Path, name: str, script: str = POLITE, grace: float = 5.0) -> Program:
    path = folder / f"{name}.pids"
    environment = env.child_environment()
    return Program(
        name, ("sh", "-c", script, "sh", name), environment, folder, grace, {78: "Named twice."}, path.exists
    )


def pids(folder: Path, name: str) -> list[int]:
    return [int(word) for word in (folder / f"{name}.pids").read_text().split()]


def gone(started: list[int]) -> bool:
    """Whether these end; SIGKILL to a group has returned before its processes are dead."""
    return wait_until(lambda: not any(map(alive, started)), 5)


class Stack:
    """A supervisor whose ticks the test makes itself."""

    def __init__(self, folder: Path, *programs: Program) -> None:
        self.folder, self.said = folder, list[str]()
        self.supervisor = Supervisor(programs, folder, self.said.append)

    def pid(self, name: str) -> int | None:
        process = self.supervisor.children[name].process
        return process.pid if process else None

    def until(self, check: str, seconds: float = 5.0) -> bool:
        """Ticks until something said starts with `check`."""

        def look() -> bool:
            self.supervisor.tick()
            return any(line.startswith(check) for line in self.said)

        return wait_until(look, seconds)

    def came_back(self, name: str, first: int | None, seconds: float = 5.0) -> bool:
        """Ticks until the program has a process other than `first`."""

        def look() -> bool:
            self.supervisor.tick()
            return self.pid(name) not in {None, first}

        return wait_until(look, seconds)

    def delayed(self, name: str, delay: float, seconds: float = 10.0) -> bool:
        """Ticks until the next start of the program is put off by so many seconds."""

        def look() -> bool:
            self.supervisor.tick()
            return self.supervisor.children[name].delay >= delay

        return wait_until(look, seconds)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path, program(tmp_path, "redis"), program(tmp_path, "web"))


def test_starts_everything_and_stops_everything(stack: Stack) -> None:
    stack.supervisor.start()
    started = [pid for name in ("redis", "web") for pid in pids(stack.folder, name)]
    assert all(map(alive, started))
    stack.supervisor.stop()
    assert gone(started)


def test_stops_in_the_reverse_order_of_starting(stack: Stack) -> None:
    stack.supervisor.start()
    stack.supervisor.stop()
    assert (stack.folder / "stopped").read_text().split() == ["web", "redis"]


def test_stops_in_the_order_it_was_given(tmp_path: Path) -> None:
    programs = [program(tmp_path, name) for name in ("redis", "web", "worker", "beat")]
    keeper = Supervisor(programs, tmp_path, print, ("web", "beat", "worker", "redis"))
    keeper.start()
    keeper.stop()
    assert (tmp_path / "stopped").read_text().split() == ["web", "beat", "worker", "redis"]


def test_restarts_a_killed_program(stack: Stack) -> None:
    stack.supervisor.start()
    first = stack.pid("web")
    os.kill(pids(stack.folder, "web")[0], signal.SIGKILL)
    assert stack.until("web was ended by SIGKILL; starting it again")
    assert stack.came_back("web", first)
    stack.supervisor.stop()


def test_what_a_killed_program_left_in_its_group_is_ended_too(stack: Stack) -> None:
    stack.supervisor.start()
    parent, child = pids(stack.folder, "web")
    os.kill(parent, signal.SIGKILL)
    assert stack.until("web was ended")
    assert gone([child])
    stack.supervisor.stop()


def test_a_stubborn_program_is_killed_after_its_grace(tmp_path: Path) -> None:
    keeper = Supervisor([program(tmp_path, "worker", STUBBORN, grace=0.2)], tmp_path, print)
    keeper.start()
    started = pids(tmp_path, "worker")
    keeper.stop()
    assert gone(started)


def test_a_second_request_to_stop_cuts_the_grace_short(tmp_path: Path) -> None:
    keeper = Supervisor([program(tmp_path, "worker", STUBBORN, grace=600)], tmp_path, print)
    keeper.start()
    keeper.stop_soon()
    keeper.stop_soon()
    keeper.run()
    assert gone(pids(tmp_path, "worker"))


def test_run_ends_when_asked(stack: Stack) -> None:
    stack.supervisor.start()
    threading.Timer(0.1, stack.supervisor.stop_soon).start()
    stack.supervisor.run()
    assert gone(pids(stack.folder, "web"))


def test_a_refusal_is_told_in_words_and_not_tried_again_at_once(tmp_path: Path) -> None:
    stack = Stack(tmp_path, program(tmp_path, "worker", "touch $1.pids; exit 78"))
    stack.supervisor.start()
    assert stack.until("Named twice. Next try in 60 s.")
    stack.supervisor.tick()
    assert stack.pid("worker") is None
    stack.supervisor.stop()


def test_a_program_that_never_gets_ready_ends_the_start_with_its_last_words(tmp_path: Path) -> None:
    broken = Program("web", ("sh", "-c", "echo no such address"), {}, tmp_path, ready=lambda: False, ready_seconds=0.3)
    keeper = Supervisor([broken], tmp_path, print)
    with pytest.raises(NotReady, match=r"web did not start: .*no such address"):
        keeper.start()
    keeper.stop()


@pytest.mark.parametrize(
    ("last", "ran", "refused", "expected"),
    [
        (0.0, 1.0, False, 0.5),
        (0.5, 1.0, False, 1.0),
        (16.0, 1.0, False, 30.0),
        (30.0, 1.0, False, 30.0),
        (30.0, 61.0, False, 0.5),
        (0.0, 3.0, True, 60.0),
    ],
)
def test_delays_double_up_to_half_a_minute(last: float, ran: float, refused: bool, expected: float) -> None:
    assert supervisor.next_delay(last, ran, refused) == expected


def test_the_state_file_tells_pids_and_restarts(stack: Stack) -> None:
    stack.supervisor.start()
    stack.supervisor.announce("http://127.0.0.1:8000/")
    text = (stack.folder / "stack.json").read_text()
    expected = {name: stack.pid(name) for name in ("redis", "web")}
    state = State(**json.loads(text))
    assert (state.supervisor, state.address, state.programs) == (os.getpid(), "http://127.0.0.1:8000/", expected)
    stack.supervisor.stop()
    assert not (stack.folder / "stack.json").exists()
    assert read_state(stack.folder) is None


def test_each_program_has_its_log(stack: Stack) -> None:
    one = Supervisor([program(stack.folder, "web", "echo hello; touch $1.pids; exec sleep 600")], stack.folder, print)
    one.start()
    one.stop()
    assert (stack.folder / "log/web.log").read_text() == "hello\n"


def test_a_log_that_grew_too_large_is_cut_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    with log.open("ab") as writer:
        writer.write(b"x" * 1000)
        writer.flush()
        processes.cap(log, 999)
        writer.write(b"more")
    assert log.read_text() == "more"
    assert len((tmp_path / "web.log.1").read_text()) == 999


KEEPER = """
import os, sys
from pathlib import Path
from tests.house.test_supervisor import program, Supervisor
folder = Path(sys.argv[1])
keeper = Supervisor([program(folder, "redis"), program(folder, "web")], folder, print)
keeper.start()
print("up", flush=True)
keeper.run()
"""


def test_a_killed_supervisor_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KEEPER, str(tmp_path)]
    with subprocess.Popen(command, cwd=CLONE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"up\n"
        keeper.kill()
    started = [pids(tmp_path, name)[0] for name in ("redis", "web")]
    try:
        assert gone(started)
    finally:
        for pid in started:
            processes_end(pid)


def processes_end(pid: int) -> None:
    """Ends the group of a dummy program, whose own child has no death signal."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_a_program_that_keeps_failing_waits_longer_each_time(tmp_path: Path) -> None:
    stack = Stack(tmp_path, program(tmp_path, "beat", "touch $1.pids; exit 3"))
    stack.supervisor.start()
    assert stack.until("beat ended with exit code 3; starting it again in 0.5 s.")
    assert stack.until("beat ended with exit code 3; starting it again in 1.0 s.")
    assert stack.supervisor.children["beat"].restarts == 2
    stack.supervisor.stop()


def test_a_program_that_dies_while_it_gets_ready_is_started_again(tmp_path: Path) -> None:
    script = "if mkdir first; then exit 1; fi; touch $1.pids; exec sleep 600"
    stack = Stack(tmp_path, program(tmp_path, "web", script))
    stack.supervisor.start()
    assert stack.supervisor.children["web"].restarts == 1
    assert stack.pid("web") is not None
    stack.supervisor.stop()


def test_a_stop_during_the_start_starts_nothing_more(tmp_path: Path) -> None:
    stack = Stack(tmp_path, program(tmp_path, "redis", "exec sleep 600"), program(tmp_path, "web"))
    threading.Timer(0.1, stack.supervisor.stop_soon).start()
    stack.supervisor.start()
    assert stack.supervisor.is_stopping
    assert stack.pid("web") is None
    stack.supervisor.run()
    assert stack.pid("redis") is None


def test_logs_are_for_their_owner_alone(stack: Stack) -> None:
    assert (stack.folder / "log").stat().st_mode & 0o777 == 0o700


def test_programs_see_no_standard_input(tmp_path: Path) -> None:
    stack = Stack(tmp_path, program(tmp_path, "web", "cat; echo end; touch $1.pids; exec sleep 600"))
    stack.supervisor.start()
    assert (tmp_path / "log/web.log").read_text() == "end\n"
    stack.supervisor.stop()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """The folder of a data disk that was filled to its last byte after `stack.json` and the logs were made."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "piherder-test", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path) -> None:
    with suppress(OSError), (place / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


@needs_root
def test_a_full_disk_ends_no_program_and_is_said_once(tmp_path: Path, full_disk: Path) -> None:  # case C09
    keeper = Stack(full_disk, program(tmp_path, "web"), program(tmp_path, "beat"))
    keeper.supervisor.start()
    fill(full_disk)
    first = keeper.pid("web")
    for _ in range(2):
        os.kill(keeper.pid("web") or 0, signal.SIGKILL)
        assert keeper.came_back("web", first)
        first = keeper.pid("web")
    complaint = "The state of the stack cannot be saved: No space left on device; it is tried again."
    assert keeper.said.count(complaint) == 1
    (full_disk / "filler").unlink()
    keeper.supervisor.tick()
    assert json.loads((full_disk / "stack.json").read_text())["programs"]["web"] == keeper.pid("web")
    keeper.supervisor.stop()


@needs_root
def test_a_log_that_cannot_be_kept_is_emptied_all_the_same(
    tmp_path: Path, full_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOG_LIMIT", 100)
    keeper = Stack(full_disk, program(tmp_path, "web"))
    (full_disk / "log/web.log").write_text("x" * 200)
    fill(full_disk)
    keeper.supervisor.tick()
    assert (full_disk / "log/web.log").stat().st_size == 0
    assert "The log of web cannot be kept: No space left on device; it is tried again." in keeper.said
    keeper.supervisor.stop()


def test_a_program_that_cannot_be_started_now_is_tried_again_later(stack: Stack) -> None:
    stack.supervisor.start()
    (stack.folder / "log").rename(stack.folder / "aside")  # no log can be opened, so nothing can be started
    os.kill(stack.pid("web") or 0, signal.SIGKILL)
    assert stack.until("web cannot be started: No such file or directory")
    assert stack.delayed("web", 2.0)
    (stack.folder / "aside").rename(stack.folder / "log")
    assert stack.came_back("web", None, seconds=10)
    assert sum(line.startswith("web cannot be started") for line in stack.said) == 1
    stack.supervisor.stop()
    assert "stopped" in os.listdir(stack.folder)


def test_whoever_cannot_be_told_any_more_ends_nothing(tmp_path: Path) -> None:
    def closed(text: str) -> None:
        raise BrokenPipeError

    keeper = Stack(tmp_path, program(tmp_path, "web"))
    keeper.supervisor._say = closed
    keeper.supervisor.start()
    first = keeper.pid("web")
    os.kill(first or 0, signal.SIGKILL)
    assert keeper.came_back("web", first)
    keeper.supervisor.stop()
