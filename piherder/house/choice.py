"""What an installation is to be: the command line of `make install` laid over the settings that are there."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from piherder.house.folder import CLONE, Refused
from piherder.house.form import HIDDEN

if TYPE_CHECKING:
    from piherder.house.layout import Layout

EMBEDDED, POSTGRESQL, REDIS_SERVER = "embedded", "postgresql", "redis-server"
OTHER = "another server"
# The socket folder of Debian's PostgreSQL; the client library of our driver looks elsewhere by itself.
OWN_POSTGRESQL = "postgresql:///piherder?host=/var/run/postgresql"
HEAD = """\
# Settings of PiHerder, one NAME=value a line; README.md names them all. After a change:
#   sudo systemctl restart piherder.target
# `make install` and `make upgrade` leave these lines alone; only an option of `make install` changes its own line.
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """The command line; None where nothing was said."""

    bind: str | None = None
    port: int | None = None
    database: str | None = None
    redis: str | None = None
    backups: Path | None = None
    yes: bool = False


def parse(arguments: list[str]) -> Wish:
    """Options of `make install`. Exits with 2 on wrong use."""
    parser = argparse.ArgumentParser(prog="make install", description="Install PiHerder as services of this machine.")
    parser.add_argument("--bind", help="address to listen on (default: 127.0.0.1, this machine only)")
    parser.add_argument("--port", type=int, help="default: 8000")
    parser.add_argument("--database", choices=(EMBEDDED, POSTGRESQL), help="default: embedded (SQLite)")
    parser.add_argument("--redis", choices=(EMBEDDED, REDIS_SERVER), help="whose program serves the private Redis")
    parser.add_argument(
        "--backups", type=Path, metavar="PATH", help="first backup root (default: /var/backups/piherder)"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    found = parser.parse_args(arguments)
    if found.port is not None and not 0 < found.port < 65536:
        parser.error(f"--port must lie between 1 and 65535, not {found.port}.")
    return Wish(**vars(found))


def database_of(settings: dict[str, str]) -> str:
    """The kind of database that these settings name."""
    url = settings.get("DATABASE_URL", "")
    if not url or url.startswith("sqlite:"):
        return EMBEDDED
    return POSTGRESQL if url == OWN_POSTGRESQL else OTHER


def own_redis(settings: dict[str, str], layout: Layout) -> bool:
    """True when the Redis of these settings is the private one of the data folder."""
    data = settings.get("PIHERDER_DATA", str(layout.data))
    return settings.get("REDIS_URL", "") in {"", redis_url(data)}


def redis_url(data: str) -> str:
    """Address of the private server."""
    return f"unix://{quote(f'{data}/redis/redis.sock')}"


def decide(wish: Wish, settings: dict[str, str], layout: Layout) -> dict[str, str]:
    """The lines to set: those that the command line names, and defaults for those that are not there yet.

    Raises Refused for what an installation cannot become.
    """
    data = settings.get("PIHERDER_DATA", str(layout.data))
    named = {
        "PIHERDER_BIND": wish.bind,
        "PIHERDER_PORT": str(wish.port) if wish.port else None,
        "PIHERDER_BACKUPS": str(wish.backups) if wish.backups else None,
    }
    database = OWN_POSTGRESQL if wish.database == POSTGRESQL else f"sqlite:///{quote(f'{data}/db.sqlite3')}"
    defaults = {
        "PIHERDER_DATA": data,
        "PIHERDER_BACKUPS": str(layout.backups),
        "PIHERDER_BIND": "127.0.0.1",
        "PIHERDER_PORT": "8000",
        "DATABASE_URL": database,
        "REDIS_URL": redis_url(data),
    }
    check_move(wish, settings, layout)
    found = {**defaults, **settings, **{name: value for name, value in named.items() if value}}
    check_backups(Path(found["PIHERDER_BACKUPS"]), Path(data), layout)
    return {name: found[name] for name in defaults if settings.get(name) != found[name]}


def check_move(wish: Wish, settings: dict[str, str], layout: Layout) -> None:
    """Raises Refused when the command line names other servers than those that hold the data."""
    there = database_of(settings)
    if settings.get("DATABASE_URL") and wish.database not in (None, there):
        raise Refused(
            f"This installation keeps its data in {there} ({layout.settings}), and `make install` does not move them "
            f"to {wish.database}."
        )
    if wish.redis and not own_redis(settings, layout):
        raise Refused(f"REDIS_URL in {layout.settings} names another Redis: remove that line to use --redis.")


def check_backups(path: Path, data: Path, layout: Layout, clone: Path = CLONE) -> None:
    """Raises Refused for a first backup root that would be lost with something else, or that no service can see."""
    if not path.is_absolute() or ".." in path.parts:
        raise Refused(f"--backups must be an absolute path, not {path}.")
    for other, words in ((data, "the data folder"), (layout.code, "the program's folder"), (clone, "the clone")):
        if path == other or other in path.parents:
            raise Refused(
                f"--backups {path} lies in {words} {other}: choose a folder of its own, best on another disk."
            )
    if any(Path(each) in (path, *path.parents) for each in HIDDEN):
        raise Refused(f"--backups {path} lies in a home folder, which the services cannot see: choose one elsewhere.")
