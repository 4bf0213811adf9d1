"""Starting and ending one program of ours: own process group, a death signal from the kernel, stopped by pid."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

POLL = 0.02


def spawn(
    argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path, identity: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Starts a program that the kernel kills when the thread that called us ends.

    `setpriv` executes the program in its own place, so the pid is the program's. `identity` holds further options of
    setpriv (another user); the death signal is set after those, because a change of user clears it (prctl(2)).
    """
    command = ["setpriv", *identity, "--pdeathsig", "KILL", "--", *argv]
    with log.open("ab") as handle:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signals every process of the group that `spawn` made; silent when none is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def end(process: subprocess.Popen[bytes], grace: float, number: signal.Signals = signal.SIGTERM) -> int:
    """Asks the program to stop, waits `grace` seconds, kills its whole group, and returns the exit code."""
    if process.poll() is None:
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    signal_group(process, signal.SIGKILL)
    return process.wait()


def children(pid: int) -> list[int]:
    """Process ids of the direct children, from /proc; none when the process has ended."""
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def is_alive(pid: int) -> bool:
    """True while the process exists and is no zombie that merely waits for its reaper."""
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def wait_until(check: Callable[[], bool], seconds: float, pause: float = POLL) -> bool:
    """Polls `check` every `pause` seconds until it is true; False after `seconds`."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def tail(log: Path, lines: int = 3) -> str:
    """The last lines of a log, in one line, for an error message."""
    if not log.exists():
        return "no log"
    return " / ".join(line.strip() for line in log.read_text(errors="replace").splitlines()[-lines:])


def cap(log: Path, limit: int) -> None:
    """Moves a log beyond `limit` bytes to `<name>.1` and empties it in place: the writer keeps its open file.

    Raises OSError when the older lines cannot be kept; the log is emptied all the same, and takes no more of the disk.
    """
    if log.exists() and log.stat().st_size > limit:
        try:
            log.with_name(f"{log.name}.1").write_bytes(log.read_bytes()[-limit:])
        finally:
            os.truncate(log, 0)
