"""Who uses this installation's database now: nothing is brought back under running processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError, connection

from jobs.models import BeatLease, WorkerNode
from piherder.archive.dump import sqlite_file
from piherder.archive.unfinished import UnderWay
from piherder.house import folder
from piherder.house.processes import wait_until
from piherder.management.state import Pulse, watching_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

LINGERS = 3.0  # seconds
SESSIONS = """
SELECT pid, application_name, host(client_addr) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


def users() -> list[str]:
    """Everybody who uses the installation, by name; takes as long as it takes to see a heart beat."""
    if connection.vendor == "sqlite" and not sqlite_file().exists():
        return stacks()
    return [*beating(), *present()]


def present() -> list[str]:
    """Those of them who can be seen at once: nobody starts without being one of these."""
    if connection.vendor != "sqlite":
        return [*stacks(), *sessions()]
    return [*stacks(), *(openers(sqlite_file()) if sqlite_file().exists() else [])]


def require_nobody(found: list[str]) -> None:
    """Raises UnderWay naming those who were found."""
    if found:
        named = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
        raise UnderWay(f"The herder is running: stop {named} first, then start again.")


def stacks() -> list[str]:
    """The embedded stack that runs on the data folder."""
    if not folder.is_running(settings.DATA):
        return []
    state = folder.read_state(settings.DATA)
    return [f"the stack on {settings.DATA}" + (f" (process {state.supervisor})" if state else "")]


def beating() -> list[str]:
    """Workers and the beat whose counters move, wherever they run."""
    try:
        pulse = Pulse()
        pulse.watch(watching_seconds())
        names: dict[object, str] = dict(WorkerNode.objects.values_list("boot", "name"))
        names |= {pk: f"beat on {name}" for pk, name in BeatLease.objects.values_list("pk", "name")}
    except DatabaseError:  # empty, older than these tables, or damaged: nobody of ours can be at work in it
        return []
    finally:
        connection.close()
    return [names.get(key, "a worker") for key in pulse.moved]


def openers(database: Path) -> list[str]:
    """Other processes of this machine that have the file open, as far as we may look."""
    real = os.path.realpath(database)
    others = (pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid())
    return [f"{called(pid)} (process {pid})" for pid in others if real in open_files(pid)]


def open_files(pid: str) -> Iterator[str]:
    """What a process has open; nothing when it is not ours to see."""
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{name}")


def called(pid: str) -> str:
    """A process as a person knows it: its program and first word."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join([Path(words[0]).name, *words[1:3]]).strip() or "a process"
    return "a process"


def sessions() -> list[str]:
    """Other sessions of the PostgreSQL database. Raises DatabaseError.

    Of a program that has ended, pg_dump for one, the server's process lives a moment longer.
    """
    rows: list[tuple[int, str, str | None]] = []

    def nobody() -> bool:
        cursor.execute(SESSIONS)
        rows[:] = cursor.fetchall()
        return not rows

    with connection.cursor() as cursor:
        wait_until(nobody, LINGERS, pause=0.1)
    connection.close()
    return [session_words(*row) for row in rows]


def session_words(pid: int, name: str, place: str | None) -> str:
    """A session of the database as a person can find it."""
    return f"{name or 'a session'}{f' from {place}' if place else ''} (server process {pid})"
