"""A private PostgreSQL server for tests and benchmarks: own folder, Unix socket and one loopback port, own user."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from piherder import env
from piherder.house import processes
from piherder.house.folder import Refused
from piherder.house.ports import free_port

INSTALLED = Path("/usr/lib/postgresql")
START_SECONDS = 20.0
NAME = "piherder"
READY_LINE = 7  # postmaster.pid: first line the pid, eighth the status (pg_ctl reads the same)
# A commit still reaches the kernel, so that it outlives a killed server; only a power cut could lose it.
UNSAFE_BUT_FAST = ("-c", "fsync=off", "-c", "full_page_writes=off")


def programs() -> Path:
    """Folder of the newest installed server. Raises Refused when there is none."""
    found = sorted(INSTALLED.glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    on_path = shutil.which("initdb")
    if not found and not on_path:
        raise Refused("No PostgreSQL server was found; install one with: sudo apt install postgresql")
    return found[-1].parent if found else Path(str(on_path)).parent


def server_user() -> pwd.struct_passwd:
    """The user to run as: ourselves, or as root an unprivileged one, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def identity(user: pwd.struct_passwd) -> list[str]:
    """Options of setpriv that become `user`; none when we are that user."""
    if user.pw_uid == os.geteuid():
        return []
    return [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def is_ready(pid_file: str, pid: int) -> bool:
    """True when the text of postmaster.pid says that server `pid` accepts connections."""
    lines = pid_file.splitlines()
    return len(lines) > READY_LINE and lines[0] == str(pid) and lines[READY_LINE].strip() == "ready"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server lives and how it is reached."""

    folder: Path
    port: int
    password: str

    @property
    def data(self) -> Path:
        """The cluster."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """DATABASE_URL over the loopback port."""
        return f"postgresql://{NAME}:{self.password}@127.0.0.1:{self.port}/postgres"


class PrivatePostgres:
    """One cluster in a temporary folder. `safe=False` turns off fsync, for tests that lose no power.

    `start` must be called from a thread that outlives the server: the kernel ends the server with that thread.
    """

    def __init__(self, safe: bool = False) -> None:
        self.user = server_user()
        # /tmp and not a folder of the caller's: the other user must be able to reach it
        folder = Path(tempfile.mkdtemp(prefix="piherder-pg-", dir="/tmp"))
        os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        self.place = Place(folder, free_port(), secrets.token_urlsafe(18))
        self.log = folder / "postgres.log"
        self.options = () if safe else UNSAFE_BUT_FAST
        self._process: subprocess.Popen[bytes] | None = None
        self._initialise()

    def _initialise(self) -> None:
        command = [
            "setpriv",
            *identity(self.user),
            "--",
            str(programs() / "initdb"),
            "-D",
            str(self.place.data),
            "-U",
            NAME,
        ]
        options = ["-E", "UTF8", "--locale=C.UTF-8", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=self.place.folder)
        if done.returncode:
            shutil.rmtree(self.place.folder, ignore_errors=True)
            raise Refused(f"The private PostgreSQL cluster could not be made: {done.stderr.strip()[-300:]}")

    def _set_password(self) -> None:
        """Over the Unix socket, which only the server's user and root reach: a file or an argument would show it."""
        place = self.place
        with psycopg.connect(host=str(place.folder), port=place.port, user=NAME, dbname="postgres") as connection:
            words = sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(NAME), sql.Literal(place.password))
            connection.execute(words)

    @property
    def url(self) -> str:
        """DATABASE_URL of this server."""
        return self.place.url

    @property
    def pid(self) -> int:
        """Process id of the postmaster. Raises Refused when it was not started."""
        if self._process is None:
            raise Refused("The private PostgreSQL server does not run.")
        return self._process.pid

    def answers(self) -> bool:
        """True when this very server accepts connections."""
        path = self.place.data / "postmaster.pid"
        return self._process is not None and path.exists() and is_ready(path.read_text(), self._process.pid)

    def start(self) -> None:
        """Starts the server and waits until it accepts connections. Raises Refused with the end of its log."""
        listen = ["-c", "listen_addresses=127.0.0.1", "-p", str(self.place.port), "-k", str(self.place.folder)]
        argv = [str(programs() / "postgres"), "-D", str(self.place.data), *listen, *self.options]
        environment = env.child_environment(HOME=str(self.place.folder))
        self._process = process = processes.spawn(argv, self.log, environment, self.place.folder, identity(self.user))
        processes.wait_until(lambda: process.poll() is not None or self.answers(), START_SECONDS)
        if not self.answers():
            self.kill()
            raise Refused(f"The private PostgreSQL server did not start: {processes.tail(self.log)}")
        self._set_password()

    def stop(self) -> None:
        """Fast shutdown: open connections are cut, committed data is kept."""
        if self._process is not None:
            processes.end(self._process, grace=15, number=signal.SIGINT)
            self._process = None

    def kill(self) -> None:
        """SIGKILL to the postmaster and its children (each leads a group of its own), gone when this returns."""
        if self._process is not None:
            family = processes.children(self._process.pid)
            self._process.kill()
            self._process.wait()
            for pid in family:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            # the next start refuses while the old shared memory has a user
            processes.wait_until(lambda: not any(map(processes.is_alive, family)), START_SECONDS)
            self._process = None

    def restart(self) -> None:
        """Stop and start on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops the server and removes its folder."""
        self.stop()
        shutil.rmtree(self.place.folder, ignore_errors=True)
