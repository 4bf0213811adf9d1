"""Keeps the programs of one installation running, restarts them with back-off, and ends them in order."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from piherder.house import processes
from piherder.house.folder import State, write_state

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

LOG_LIMIT = 5_000_000
TICK = 0.2
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
STEADY_AFTER = 60.0  # a program that ran this long is restarted at once again
REFUSED_DELAY = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """One program to keep running. Times in seconds.

    `grace` is how long it may take to stop; `refusals` maps exit codes by which it says that starting it again is
    useless for now to the sentence for the person; `ready` is waited for before the next program starts.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    grace: float = 10.0
    refusals: Mapping[int, str] = field(default_factory=dict)
    ready: Callable[[], bool] | None = None
    ready_seconds: float = 30.0


@dataclass(slots=True)
class Child:
    """A program with its present process and its history."""

    program: Program
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    delay: float = 0.0
    restarts: int = 0

    def start(self, now: float) -> None:
        """Starts the process; `now` is the monotonic clock."""
        program = self.program
        self.process = processes.spawn(program.argv, self.log, program.env, program.cwd)
        self.started = now

    def ended(self, code: int, now: float) -> None:
        """Plans the next start after an exit: delays double from half a second to half a minute."""
        if self.process is not None:
            processes.signal_group(self.process, signal.SIGKILL)
        self.process = None
        self.restarts += 1
        self.delay = next_delay(self.delay, now - self.started, code in self.program.refusals)
        self.due = now + self.delay


def next_delay(last: float, ran: float, refused: bool) -> float:
    """Seconds until the next start of a program that ran for `ran` seconds and waited `last` before."""
    if refused:
        return REFUSED_DELAY
    return FIRST_DELAY if not last or ran > STEADY_AFTER else min(2 * last, LONGEST_DELAY)


class Supervisor:
    """Starts `programs` in the given order and ends them in the order of `stop_order` (default: the reverse).

    `start` and `run` belong in one thread that outlives the programs, best the main one: the kernel ends the programs
    with the thread that started them, so that not even kill -9 leaves any behind.
    """

    def __init__(
        self, programs: Sequence[Program], data: Path, say: Callable[[str], None], stop_order: Sequence[str] = ()
    ) -> None:
        logs = data / "log"
        logs.mkdir(exist_ok=True, mode=0o700)
        self.children = {p.name: Child(p, logs / f"{p.name}.log") for p in programs}
        self.stop_order = stop_order or [p.name for p in reversed(programs)]
        self.address = ""
        self._state = data / "stack.json"
        self._say = say
        self._stopping = threading.Event()
        self._hurry = False
        self._troubles: set[str] = set()  # what was told and still lasts
        self._unsaved = False

    def start(self) -> None:
        """Starts every program, each after the one before it is ready, until told to stop. Raises NotReady in words."""
        for child in self.children.values():
            if self._stopping.is_set():
                return
            self._start(child)
            ready = child.program.ready
            if ready is not None and not processes.wait_until(self._up(child, ready), child.program.ready_seconds):
                raise NotReady(f"{child.program.name} did not start: {processes.tail(child.log)}")

    def _up(self, child: Child, ready: Callable[[], bool]) -> Callable[[], bool]:
        """A check that keeps the program alive while it waits for it."""

        def check() -> bool:
            self._look_after(child)
            return self._stopping.is_set() or ready()

        return check

    def run(self) -> None:
        """Looks after the programs until `stop_soon`, then ends them."""
        try:
            while not self._stopping.wait(TICK):
                self.tick()
        finally:
            self.stop()

    def tick(self) -> None:
        """One look at every program and every log."""
        for child in self.children.values():
            self._look_after(child)
            self._try(f"The log of {child.program.name} cannot be kept", partial(processes.cap, child.log, LOG_LIMIT))
        if self._unsaved:
            self._write_state()

    def _look_after(self, child: Child) -> None:
        now = time.monotonic()
        if child.process is not None:
            code = child.process.poll()
            if code is not None:
                child.ended(code, now)
                self._tell(describe_end(child.program, code, child.delay))
                self._write_state()
        elif now >= child.due:
            self._start(child)

    def _start(self, child: Child) -> None:
        now = time.monotonic()
        if self._try(f"{child.program.name} cannot be started", partial(child.start, now)):
            self._write_state()
        else:
            child.delay = next_delay(child.delay, 0, refused=False)
            child.due = now + child.delay

    def _try(self, trouble: str, step: Callable[[], None]) -> bool:
        """True when the step was made. A disk that is full or memory that is short is told once, and all goes on."""
        try:
            step()
        except OSError as error:
            if trouble not in self._troubles:
                self._tell(f"{trouble}: {error.strerror or error}; it is tried again.")
            self._troubles.add(trouble)
            return False
        self._troubles.discard(trouble)
        return True

    def _tell(self, text: str) -> None:
        """Who we tell may be a file on the same full disk, or a terminal that was closed."""
        with suppress(OSError):
            self._say(text)

    def _write_state(self) -> None:
        running = {name: c.process.pid for name, c in self.children.items() if c.process is not None}
        restarts = {name: c.restarts for name, c in self.children.items()}
        state = State(os.getpid(), self.address, running, restarts)
        saved = self._try("The state of the stack cannot be saved", partial(write_state, self._state, state))
        self._unsaved = not saved

    @property
    def is_stopping(self) -> bool:
        """True from the first request to stop."""
        return self._stopping.is_set()

    def announce(self, address: str) -> None:
        """Puts the address of the pages into the state file."""
        self.address = address
        self._write_state()

    def stop_soon(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Ends `run`; usable as a signal handler. A second call cuts every grace short."""
        self._hurry = self._stopping.is_set()
        self._stopping.set()

    def stop(self) -> None:
        """Ends every program in order, each within its grace, then by SIGKILL to its whole process group."""
        for name in self.stop_order:
            child = self.children[name]
            if child.process is not None:
                self._end(child.process, child.program.grace)
                child.process = None
        with suppress(OSError):  # a disk that became read-only must not keep the rest from its end
            self._state.unlink(missing_ok=True)

    def _end(self, process: subprocess.Popen[bytes], grace: float) -> None:
        """Asks, then waits until it is gone, the grace is over or the person is in a hurry."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            processes.wait_until(lambda: process.poll() is not None or self._hurry, grace)
        processes.end(process, grace=0, number=signal.SIGKILL)


class NotReady(Exception):
    """A program did not become ready; the text is one plain sentence."""


def describe_end(program: Program, code: int, delay: float) -> str:
    """What to tell the person about an exit."""
    if code in program.refusals:
        return f"{program.refusals[code]} Next try in {delay:.0f} s."
    how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    return f"{program.name} {how}; starting it again in {delay:.1f} s."


def _signal_name(number: int) -> str:
    """Most real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
