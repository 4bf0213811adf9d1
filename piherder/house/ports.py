"""Who listens where, from /proc: for the message about a taken port, and to prove that a set-up opened none."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path

from piherder.house.folder import Refused

LISTEN = "0A"  # state of a listening socket in /proc/net/tcp, see proc_pid_net(5)
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def listeners(table: str) -> dict[int, set[int]]:
    """Listening ports with the inodes of their sockets, from the text of /proc/net/tcp or tcp6."""
    found: dict[int, set[int]] = {}
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == LISTEN:
            found.setdefault(int(fields[1].rpartition(":")[2], 16), set()).add(int(fields[9]))
    return found


def listening_ports() -> set[int]:
    """Every TCP port that something listens on now."""
    return {port for table in TABLES if table.exists() for port in listeners(table.read_text())}


def holder(port: int) -> str:
    """The process that listens on `port`, as `redis-server (process 42)`; "another program" when it cannot be seen."""
    inodes = {i for table in TABLES if table.exists() for i in listeners(table.read_text()).get(port, set())}
    sockets = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        if sockets & _open_files(process):
            with contextlib.suppress(OSError):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    return "another program"


def _open_files(process: Path) -> set[str]:
    """Targets of a process's file descriptors; empty when it is not ours to see or has ended."""
    targets = set()
    with contextlib.suppress(OSError):
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                targets.add(os.readlink(link))
    return targets


def check_free(address: str, port: int) -> None:
    """Raises Refused in words when `address:port` cannot be listened on, naming who holds it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise Refused(refusal(error, address, port)) from error


def taken_reason(address: str, port: int) -> str:
    """What to say about a port that somebody holds, with one to try instead."""
    other = port + 1 if port < 65535 else 8000
    return f'Port {port} on {address} is taken by {holder(port)}; choose another with ARGS="--port {other}".'


def refusal(error: OSError, address: str, port: int) -> str:
    """What to say when the kernel refuses to listen, with what to try instead."""
    if error.errno == errno.EADDRINUSE:
        return taken_reason(address, port)
    if error.errno == errno.EACCES:
        return f'Port {port} may be opened by root only; choose one above 1023 with ARGS="--port 8000".'
    return f'This machine has no address {address} to listen on; choose one of its own with ARGS="--bind ADDRESS".'


def free_port() -> int:
    """A loopback TCP port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(address: str, port: int, seconds: float = 1.0) -> bool:
    """True when something accepts a TCP connection there within `seconds`."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), seconds):
        return True
    return False
