"""Loopback hosts: throw-away sshd servers that are registered as hosts, and hosts that do not answer."""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hosts import enrol
from piherder.demo.sshd import Sshd
from piherder.house.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hosts.enrol import LoginKey
    from hosts.models import Host


@dataclass(frozen=True, slots=True)
class Machines:
    """Running servers, the key that opens them, and their hosts."""

    key: LoginKey
    servers: list[Sshd]
    hosts: list[Host]


def add(name: str, port: int, key: LoginKey, server: Sshd, sources: Sequence[str] = ()) -> Host:
    """Register a loopback port as a host; `server` lends its key and its folder."""
    place: dict[str, Any] = {"address": "127.0.0.1", "port": port, "user": server.user}
    lock = str(server.folder)
    return enrol.add(name, key, [server.host_key], by="bench", sources=sources, copy_lock=lock, **place)


@contextmanager
def machines(folder: Path, count: int, sources: Sequence[str] = ()) -> Iterator[Machines]:
    """So many servers, each registered as a host; all are gone afterwards."""
    key = enrol.new_login_key("bench")
    with ExitStack() as stack:
        servers = [stack.enter_context(_server(folder, f"host{number}", key)) for number in range(count)]
        yield Machines(key, servers, [add(s.name, s.port, key, s, sources) for s in servers])


def _server(folder: Path, name: str, key: LoginKey) -> Sshd:
    server = Sshd(folder / "machines" / name, name)
    server.add_key(key.public)
    return server


@contextmanager
def blackhole() -> Iterator[int]:
    """A loopback port that lets connections hang: a listener whose queue is full drops what else comes."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = int(listener.getsockname()[1])
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(("127.0.0.1", port))
        yield port


def closed_port() -> int:
    """A loopback port that refuses connections."""
    return free_port()
