"""One process of a herd: started, frozen, woken, stopped, killed, always by its pid."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from piherder.house import processes
from piherder.house.folder import CLONE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Process:
    """A program with its own log per start. `kept`: started again when it ends by itself, as a supervisor does."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], logs: Path) -> None:
        self.name, self.argv, self.env, self.logs = name, argv, env, logs
        self.starts = 0
        self.kept = False
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it (anew)."""
        self.starts += 1
        self._process = processes.spawn(self.argv, self.log, self.env, CLONE)

    @property
    def log(self) -> Path:
        """Output of the newest start."""
        return self.logs / f"{self.name}-{self.starts}.log"

    @property
    def output(self) -> str:
        """Text of the newest start's output."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def running(self) -> bool:
        """True until it has ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def children(self) -> list[int]:
        """Process ids of its children; of a worker, its pool."""
        return processes.children(self.pid) if self.running else []

    def send(self, number: signal.Signals) -> None:
        """A signal to the process alone."""
        if self._process is not None and self.running:
            self._process.send_signal(number)

    def freeze(self) -> None:
        """The whole group stands still."""
        if self._process is not None:
            processes.signal_group(self._process, signal.SIGSTOP)

    def thaw(self) -> None:
        """The whole group goes on."""
        if self._process is not None:
            processes.signal_group(self._process, signal.SIGCONT)

    def thaw_children(self) -> None:
        """Its pool goes on while the process itself stands still."""
        for pid in self.children:
            os.kill(pid, signal.SIGCONT)

    def wait(self, seconds: float = 30.0) -> int:
        """Its exit code. Raises TimeoutExpired when it has not ended by then."""
        assert self._process is not None
        return self._process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL to the process; returns when it and its children are gone."""
        family = self.children
        self.kept = False
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)
        assert processes.wait_until(lambda: not any(map(processes.is_alive, family)), 10), "children outlived it"

    def stop(self, seconds: float = 30.0) -> int:
        """SIGTERM; its exit code."""
        self.kept = False
        self.send(signal.SIGTERM)
        return self.wait(seconds)

    def close(self) -> None:
        """However it stands: gone with its group."""
        self.kept = False
        if self._process is not None:
            self.thaw()
            with suppress(ProcessLookupError):
                processes.end(self._process, grace=0, number=signal.SIGKILL)
