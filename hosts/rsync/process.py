"""Child programs that end with their job: drained, watched, and gone to the last descendant."""

from __future__ import annotations

import fcntl
import os
import re
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
MAX_LINE = 65_536  # bytes kept of one line
_READ = _PIPE = 1 << 18
_BATCH = 0.01  # seconds between two reads of a program that prints a lot
_TICK = 0.25  # seconds between two calls of check(); half of what is promised
_GRACE = 5.0  # seconds from TERM to KILL
_LAST_WAIT = 10.0  # seconds after KILL: only a program stuck in the kernel outlives them


class ProcessLeft(Exception):
    """Programs outlived KILL, most often stuck on a disk that does not answer."""


class Stream(StrEnum):
    """Which of its two pipes a program wrote to."""

    STDOUT = "stdout"
    STDERR = "stderr"


class Line(NamedTuple):
    """One line without its end. `live` lines are drawn over by the next one and are not to be stored."""

    raw: bytes
    live: bool = False
    cut: bool = False


class LineSplitter:
    """Split bytes on `\\n` and `\\r`; a run of `\\r` is one live line whose last state is the line."""

    def __init__(self) -> None:
        self._now = b""
        self._drawn = b""
        self._redrawn = False
        self._cut = False

    def feed(self, data: bytes) -> Iterator[Line]:
        """Yield finished lines, and at the end at most one live line, which may not be whole yet."""
        *whole, rest = data.split(b"\n")
        for number, part in enumerate(whole):
            shown = part.rpartition(b"\r")[2]
            if number and shown and len(part) <= MAX_LINE:  # whole in one piece, as nearly all of many are
                yield Line(shown)
                continue
            self._add(part)
            yield self._finish()
        self._add(rest)
        if self._redrawn and (shown := self._now or self._drawn):
            yield Line(shown, live=True)

    def close(self) -> Iterator[Line]:
        """Yield what stands after the last line end."""
        if self._now or self._drawn:
            yield self._finish()

    def _add(self, part: bytes) -> None:
        """Take a part of a line; of its redraws only the last that drew something counts."""
        if b"\r" in part:
            first, *redraws, part = part.split(b"\r")
            self._keep(first)
            self._drawn = next((drawn for drawn in reversed(redraws) if drawn), self._now) or self._drawn
            self._now, self._redrawn = b"", True
            if len(self._drawn) > MAX_LINE:
                self._drawn, self._cut = self._drawn[:MAX_LINE], True
        self._keep(part)

    def _keep(self, part: bytes) -> None:
        room = MAX_LINE - len(self._now)
        self._cut |= len(part) > room
        self._now += part[:room]

    def _finish(self) -> Line:
        line = Line(self._now or self._drawn, cut=self._cut)
        self._now = self._drawn = b""
        self._redrawn = self._cut = False
        return line


def _printable(char: str) -> str:
    if char == "\t" or char.isprintable():
        return char
    return "".join(f"\\#{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))


def log_text(raw: bytes) -> str:
    """Printable text of program output: undecodable and control bytes become `\\#ooo`. No NUL, no surrogates."""
    return "".join(map(_printable, raw.decode("utf-8", "surrogateescape")))


def safe_text(raw: bytes) -> str:
    """Printable text of a file name, reversible with `hosts.rsync.output.unescape`.

    rsync's own rule (log.c, filtered_fwrite): a byte that cannot be shown is `\\#` and three octal digits, and a
    backslash that would read as such an escape is itself written as `\\#134`.
    """
    return log_text(re.sub(rb"\\(?=#[0-9]{3})", b"\x5c#134", raw))


def _group_of(stat: bytes) -> tuple[int, bool]:
    """Process group and whether it still runs, from /proc/PID/stat; the name may hold blanks and brackets."""
    state, _parent, group = stat.rpartition(b")")[2].split()[:3]
    return int(group), state not in (b"Z", b"X")


def group_members(group: int) -> list[int]:
    """Return pids of the process group that still run; zombies are gone, whoever has to collect them."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _runs_in(group, pid)]


def _runs_in(group: int, pid: int) -> bool:
    try:
        if os.getpgid(pid) != group:  # most are of other groups, and reading a file costs fifty times as much
            return False
        its_group, runs = _group_of(Path(f"/proc/{pid}/stat").read_bytes())
    except OSError:
        return False
    return runs and its_group == group


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def _gone_within(group: int, seconds: float) -> bool:
    until, pause = time.monotonic() + seconds, 0.001
    while group_members(group):
        if time.monotonic() > until:
            return False
        time.sleep(pause)
        pause = min(0.02, 2 * pause)  # most are gone in a moment
    return True


def end_group(group: int) -> None:
    """End a process group: TERM, 5 s, KILL, and wait until no member runs.

    Raises ProcessLeft when members outlive KILL by 10 s.
    """
    try:
        if group_members(group):
            _signal(group, signal.SIGTERM)
            _gone_within(group, _GRACE)
    finally:
        # A time limit may be raised as an exception inside the wait above: KILL follows whatever happens.
        _signal(group, signal.SIGKILL)
    if not _gone_within(group, _LAST_WAIT):
        raise ProcessLeft(f"Processes {group_members(group)} do not end; look for a disk that does not answer.")


def _as_stdin(data: bytes) -> int:
    """Return a readable descriptor that holds `data`: in memory, without a pipe that could fill up and block."""
    descriptor = os.memfd_create("stdin")
    with os.fdopen(os.dup(descriptor), "wb") as out:
        out.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class Child:
    """One program in a process group of its own, with a parent-death signal.

    The kernel sends that signal when the *thread* that started the program ends: use it from the main thread of the
    task. The program gets exactly `env`, and `stdin` (empty: closed).
    """

    def __init__(self, argv: Sequence[bytes | str], *, env: Mapping[str, str], stdin: bytes = b"") -> None:
        self._argv = [os.fsencode(word) for word in (*DIE_WITH_PARENT, *argv)]
        self._env = dict(env)
        self._stdin = stdin

    def run(self, on_line: Callable[[Stream, Line], None], check: Callable[[], None]) -> int:
        """Run to the end and return the exit code (negative: the signal). Nothing of it is left afterwards.

        `check` is called at least every 0.5 s; whatever it or `on_line` raises ends the group and is passed on.
        """
        stdin = _as_stdin(self._stdin) if self._stdin else subprocess.DEVNULL
        try:
            program = subprocess.Popen(
                self._argv,
                env=self._env,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        finally:
            if self._stdin:
                os.close(stdin)
        return _follow(program, on_line, check)


class _Pace:
    """Calls `check` once per tick, however often it is asked."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._next = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _TICK
            self._check()


def _follow(
    program: subprocess.Popen[bytes], on_line: Callable[[Stream, Line], None], check: Callable[[], None]
) -> int:
    pace = _Pace(check)
    with program:
        try:
            _drain(program, on_line, pace)
            pause = 0.001
            while not _ended(program.pid):
                pace()
                time.sleep(pause)
                pause = min(0.01, 2 * pause)
        finally:
            # Before the program is waited for: until then its pid cannot name another group.
            end_group(program.pid)
    return program.returncode


def _ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _drain(program: subprocess.Popen[bytes], on_line: Callable[[Stream, Line], None], pace: _Pace) -> None:
    """Read both pipes until both are closed, or until 5 s after the program itself ended."""
    patience = None
    with selectors.DefaultSelector() as selector:
        for pipe, stream in ((program.stdout, Stream.STDOUT), (program.stderr, Stream.STDERR)):
            _widen(pipe)
            selector.register(pipe or -1, selectors.EVENT_READ, (stream, LineSplitter()))
        last = 0.0
        while selector.get_map():
            pace()
            ready = selector.select(_TICK)
            if ready and time.monotonic() - last < _BATCH:
                time.sleep(_BATCH)  # one wake-up for many lines; a program that says little is heard at once
            last = time.monotonic()
            for key, _ in ready:
                _pump(selector, key, on_line)
            if patience is None and _ended(program.pid):
                patience = time.monotonic() + _GRACE
            if patience is not None and time.monotonic() > patience:
                return


def _widen(pipe: IO[bytes] | None) -> None:
    """Room for what a program prints in one batch, so that it never waits for us."""
    with suppress(OSError):  # the user's share of the kernel's memory for pipes is used up, see pipe(7)
        fcntl.fcntl(pipe or -1, fcntl.F_SETPIPE_SZ, _PIPE)


def _pump(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, on_line: Callable[[Stream, Line], None]
) -> None:
    stream, lines = key.data
    data = os.read(key.fd, _READ)
    if not data:
        selector.unregister(key.fileobj)
    for line in lines.feed(data) if data else lines.close():
        on_line(stream, line)
