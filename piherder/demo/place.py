"""Where a demonstration lives: its options, its folder, and an environment that knows of no other installation."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from piherder.house import ports, stack
from piherder.house.processes import is_alive, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SLOTS = 2
HERDER = "herder"  # the data folder of the installation, in the demonstration's own
OURS = ("PIHERDER_", "CELERY_", "DJANGO_")


@dataclass(frozen=True, slots=True)
class Options:
    """How a demonstration ends: `stay` keeps the pages up until Ctrl-C, `keep` the folder after the end."""

    folder: Path
    port: int
    stay: bool
    keep: bool

    @property
    def installation(self) -> stack.Options:
        """The embedded installation in this folder."""
        return stack.Options(self.folder / HERDER, port=self.port)

    def words(self) -> list[str]:
        """The command line that `parse` reads back."""
        switches = [word for word, on in (("--stay", self.stay), ("--keep", self.keep)) if on]
        return ["--folder", str(self.folder), "--port", str(self.port), *(switches or []), *self._exit()]

    def _exit(self) -> list[str]:
        return [] if self.stay else ["--exit"]


def parse(arguments: Sequence[str], *, terminal: bool) -> Options:
    """Command line of `make demo`; `terminal` decides whether it stays unless told. Exits with 2 on wrong use."""
    parser = argparse.ArgumentParser(
        prog="make demo",
        description="Three hosts backed up, a worker killed in the middle, nothing lost; all in one throw-away folder.",
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--exit", action="store_true", help="end after the last step (the default without a terminal)")
    end.add_argument("--stay", action="store_true", help="keep the pages up until Ctrl-C (the default on a terminal)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the backups")
    parser.add_argument("--yes", action="store_true", help="do not ask during the set-up")
    parser.add_argument("--folder", type=Path, help="an empty or new folder to use instead of a temporary one")
    parser.add_argument("--port", type=int, help="port of the pages (default: a free one)")
    found = parser.parse_args(arguments)
    folder = found.folder.expanduser().absolute() if found.folder else Path(tempfile.gettempdir())
    stay = found.stay or (terminal and not found.exit)
    return Options(folder, found.port or ports.free_port(), stay, found.keep or bool(found.folder))


def make_folder(wanted: Path | None) -> Path:
    """A private folder with a short path, because sockets lie in it. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix="piherder-demo-", dir=wanted))


def isolated(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what another installation may have set: its servers, folders, keys and names."""
    others = ("REDIS_URL", "DATABASE_URL")
    return {name: value for name, value in environment.items() if not name.startswith(OURS) and name not in others}


def left(folder: Path) -> list[int]:
    """Living processes whose command line, environment or working directory names the folder, but not this one."""
    mark = os.fsencode(folder)
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and _names(pid, mark) and is_alive(pid)]


def _names(pid: int, mark: bytes) -> bool:
    with suppress(OSError):
        process = Path(f"/proc/{pid}")
        texts = [(process / part).read_bytes() for part in ("cmdline", "environ")]
        return any(mark in text for text in (*texts, os.fsencode(os.readlink(process / "cwd"))))
    return False


def end_left(folder: Path, seconds: float = 5.0) -> list[int]:
    """Wait until nothing of the folder runs, then kill what still does; returns what had to be killed."""
    if wait_until(lambda: not left(folder), seconds):
        return []
    killed = left(folder)
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not left(folder), seconds)
    return killed


def remove(folder: Path) -> None:
    """Remove a demonstration's folder, read-only folders in it too. Raises OSError."""
    if os.geteuid() != 0:
        for path, folders, _ in os.walk(os.fsencode(folder)):
            for name in folders:
                if not os.path.islink(path + b"/" + name):
                    os.chmod(path + b"/" + name, 0o700)
    shutil.rmtree(folder)
