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

from hosts.store.paths import is_system
from piherder.house import ports, stack
from piherder.house.processes import is_alive, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SLOTS = 2
HERDER = "herder"  # the data folder of the installation, in the demonstration's own
OURS = ("PIHERDER_", "CELERY_", "DJANGO_")
PROGRAMS = frozenset({"rsync", "ssh", "sshd", "ssh-agent", "flock", "redis-server", "valkey-server"})
LONGEST_PARENT = 30  # bytes; sockets lie some 60 below, and the kernel takes 107


@dataclass(frozen=True, slots=True)
class Options:
    """How a demonstration ends: `stay` keeps the pages up until Ctrl-C, `keep` the folder after the end."""

    stay: bool = False
    keep: bool = False


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
    found = parser.parse_args(arguments)
    return Options(found.stay or (terminal and not found.exit), found.keep)


def parent_folder(wanted: str) -> str:
    """Where to make the folder: the usual place for temporary files, unless its path is too long for sockets or its
    files may not be backed up.
    """
    return "/tmp" if len(os.fsencode(wanted)) > LONGEST_PARENT or is_system(os.path.realpath(wanted)) else wanted


def make_folder() -> Path:
    """A new private folder with a short path. Raises OSError."""
    parent = os.path.realpath(parent_folder(tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(prefix="piherder_demo_", dir=parent))


def installation(folder: Path) -> stack.Options:
    """The embedded installation in a demonstration's folder, with its pages on a free port of loopback."""
    data = folder / HERDER
    data.mkdir(mode=0o700, exist_ok=True)
    return stack.Options(data, port=ports.free_port())


def isolated(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what another installation may have set: its servers, folders, keys and names."""
    others = ("REDIS_URL", "DATABASE_URL")
    return {name: value for name, value in environment.items() if not name.startswith(OURS) and name not in others}


def left(folder: Path) -> list[int]:
    """Living processes of the demonstration in `folder`, but not this one."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and _is_ours(pid, folder) and is_alive(pid)]


def _is_ours(pid: int, folder: Path) -> bool:
    """By its environment, or as one of our programs that has the folder in its command line: a person's own shell or
    pager that looks into the folder is not ours.
    """
    with suppress(OSError):
        process = Path(f"/proc/{pid}")
        mark = b"PIHERDER_DATA=" + os.fsencode(folder / HERDER)
        if mark in (process / "environ").read_bytes().split(b"\0"):
            return True
        words = (process / "cmdline").read_bytes().split(b"\0")
        named = any(os.fsencode(folder) in word for word in words)
        return named and os.path.basename(words[0]).decode(errors="replace").rstrip(":") in PROGRAMS
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
