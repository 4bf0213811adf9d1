"""Speaking to systemd: what a unit does now, and the few changes that an installation makes."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from piherder.house.folder import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN = ("Id", "LoadState", "ActiveState", "SubState", "MainPID", "NRestarts", "ExecMainStatus", "UnitFileState")
LONGEST_LOOK = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit as systemd sees it; `pid` is 0 while no process runs, `status` the exit code of the last one."""

    name: str
    loaded: bool
    state: str
    detail: str
    pid: int = 0
    restarts: int = 0
    status: int = 0
    enabled: bool = False

    @property
    def active(self) -> bool:
        """True while it runs."""
        return self.state == "active"

    @property
    def words(self) -> str:
        """For one line of `status`."""
        again = f", restarted {self.restarts} times" if self.restarts > 1 else ", restarted once" * self.restarts
        return (self.state if self.active else f"{self.state} ({self.detail})") + again


def units(text: str) -> list[Unit]:
    """Units from what `systemctl show` prints: `Name=value` lines, a blank line between two units."""
    blocks = [dict(line.split("=", 1) for line in b.splitlines() if "=" in line) for b in text.strip().split("\n\n")]
    return [
        Unit(
            name=each["Id"],
            loaded=each.get("LoadState") == "loaded",
            state=each.get("ActiveState", "unknown"),
            detail=each.get("SubState", "unknown"),
            pid=int(each.get("MainPID") or 0),
            restarts=int(each.get("NRestarts") or 0),
            status=int(each.get("ExecMainStatus") or 0),
            enabled=each.get("UnitFileState") == "enabled",
        )
        for each in blocks
        if each.get("Id")
    ]


def run(*words: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """One call of systemctl, which must not ask for a password. Raises Refused when it does not answer."""
    command = ["systemctl", "--no-pager", "--no-ask-password", *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired):
        raise Refused("systemd does not answer: look at systemctl status.") from None


def show(names: Iterable[str]) -> list[Unit]:
    """These units now. Raises Refused when systemd does not answer."""
    done = run("show", f"--property={','.join(SHOWN)}", "--", *names, seconds=LONGEST_LOOK)
    if done.returncode:
        raise Refused(f"systemd does not tell about its units ({done.stderr.strip()}): look at systemctl status.")
    return units(done.stdout)


def call(*words: str) -> None:
    """One command of systemctl. Raises Refused with what it said."""
    done = run(*words)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Refused(f"systemctl {' '.join(words)} failed: {last}")


def instances(prefix: str) -> list[str]:
    """Instances of a template that are loaded, such as `piherder-worker@2.service`. Raises Refused."""
    done = run("list-units", "--all", "--plain", "--no-legend", f"{prefix}*", seconds=LONGEST_LOOK)
    return [line.split()[0] for line in done.stdout.splitlines() if line.split()]
