"""The embedded installation: which programs it consists of, with which environment, in which order."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from piherder import env
from piherder.house import ports
from piherder.house.folder import CLONE
from piherder.house.supervisor import Program, Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from piherder.house.servers import PrivateRedis

DUPLICATE_NAME = 78  # exit code of a worker that met a live worker with its own node name (EX_CONFIG, sysexits.h)
STOP_ORDER = ("web", "beat", "worker", "redis")
DRAIN_MARGIN = 120.0  # seconds that a job may need to end its copy, on the host too, and to run the hook after it


@dataclass(frozen=True, slots=True)
class Options:
    """How one installation is to run."""

    data: Path
    bind: str = "127.0.0.1"
    port: int = 8000

    @property
    def socket_address(self) -> str:
        """`host:port` as gunicorn and a browser write it."""
        return f"[{self.bind}]:{self.port}" if ":" in self.bind else f"{self.bind}:{self.port}"

    @property
    def own_address(self) -> str:
        """An address at which this machine itself reaches the pages."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bind, self.bind)

    @property
    def is_loopback(self) -> bool:
        """True when only this machine reaches the pages."""
        return self.bind in {"::1", "localhost"} or self.bind.startswith("127.")


def program(name: str) -> str:
    """Path of a program of the virtual environment that runs us."""
    return str(Path(sys.executable).parent / name)


def environment(options: Options, redis_url: str, **changes: str) -> dict[str, str]:
    """Environment of every process of the stack; REDIS_URL and DATABASE_URL of the caller are not used."""
    hosts = [*env.words("PIHERDER_HOSTS"), *own_names(options.bind, socket.gethostname(), own_addresses())]
    return env.child_environment(
        PIHERDER_HOSTS=" ".join(hosts),
        PIHERDER_DATA=str(options.data),
        REDIS_URL=redis_url,
        DATABASE_URL=f"sqlite:///{quote(str(options.data / 'db.sqlite3'))}",
        DJANGO_SETTINGS_MODULE="piherder.settings",
        PYTHONUNBUFFERED="1",
        **changes,
    )


def own_addresses() -> list[str]:
    """Every address of this machine but loopback, from `hostname -I` (part of every Debian)."""
    return subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()


def own_names(bind: str, hostname: str, addresses: list[str]) -> list[str]:
    """The host names that a browser may send for pages served on `bind`, in Django's spelling."""
    found = {"0.0.0.0": [a for a in addresses if ":" not in a], "::": addresses}.get(bind, [bind])
    return [hostname, f"{hostname}.local", *(f"[{a}]" if ":" in a else a for a in found)]


def web_command(options: Options) -> tuple[str, ...]:
    """gunicorn with one process; its heartbeat file lies in memory where that is possible, to spare SD cards."""
    memory = ("--worker-tmp-dir", "/dev/shm") if Path("/dev/shm").is_dir() else ()
    return (
        *(program("gunicorn"), "piherder.wsgi:application", "--bind", options.socket_address),
        # gunicorn would believe any program of this machine; PIHERDER_TRUSTED_PROXIES says whom we believe.
        *("--forwarded-allow-ips", "", "--no-control-socket", *memory),
        *("--workers", "1", "--threads", "4", "--graceful-timeout", "5"),
    )


def worker_command(name: str = "") -> tuple[str, ...]:
    """The worker; PIHERDER_NODE, or `name` behind it, tell two apart that work on the same database."""
    node = "-".join(filter(None, (env.text("PIHERDER_NODE", "%h"), name)))
    slots = str(env.number("CELERY_CONCURRENCY", 2, 1, 64))
    return (program("celery"), "-A", "piherder", "worker", "--concurrency", slots, "-n", f"celery@{node}")


def beat_command() -> tuple[str, ...]:
    """The scheduler, without a pid file: a stale one would keep it from starting after a power cut."""
    return (program("celery"), "-A", "piherder", "beat", "--pidfile=")


def supervisor(options: Options, redis: PrivateRedis, say: Callable[[str], None], **changes: str) -> Supervisor:
    """The stack, not yet started: redis, then web, worker and beat. `changes` go to their environment."""
    shared = environment(options, redis.url, **changes)
    duplicate = (
        "The worker did not start, because a worker with the same node name is already at work on this database; "
        "name this one with PIHERDER_NODE=another-name."
    )
    drain = env.number("PIHERDER_DRAIN_GRACE_SEC", 20, 0, 7200) + DRAIN_MARGIN
    programs = (
        Program("redis", tuple(redis.command()), shared, redis.folder, ready=redis.answers),
        Program(
            "web",
            web_command(options),
            shared,
            CLONE,
            ready=lambda: ports.answers(options.own_address, options.port),
        ),
        Program("worker", worker_command(), shared, CLONE, grace=drain, refusals={DUPLICATE_NAME: duplicate}),
        Program("beat", beat_command(), shared, CLONE),
    )
    return Supervisor(programs, options.data, say, STOP_ORDER)
