"""Databases of a herd: real ones, which several processes share, and this process's way in."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import psycopg
from django.db import connections
from django.db.utils import ConnectionHandler
from psycopg import sql

from piherder.house.folder import CLONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@contextmanager
def fresh_database(given: str, name: str, folder: Path) -> Iterator[str]:
    """DATABASE_URL of an empty database beside the `given` one: on the same server, or a file in `folder`."""
    if not given.startswith("postgres"):
        yield f"sqlite:///{quote(str(folder / 'db.sqlite3'))}"
        return
    with psycopg.connect(given, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlunsplit(urlsplit(given)._replace(path=f"/{name}"))
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def migrate(environment: Mapping[str, str]) -> None:
    """Make the tables."""
    command = [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity", "0"]
    done = subprocess.run(command, cwd=CLONE, env=dict(environment), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def settings_of(url: str) -> dict[str, Any]:
    """Django's settings of a database, like those of this process but for its address."""
    parts = urlsplit(url)
    own = dict(connections.settings["default"])
    if parts.scheme == "sqlite":
        return {**own, "NAME": "/" + unquote(parts.path.lstrip("/"))}
    return {**own, "NAME": parts.path.lstrip("/"), "HOST": parts.hostname, "PORT": str(parts.port),
            "USER": parts.username, "PASSWORD": unquote(parts.password or "")}  # fmt: skip


@contextmanager
def connected(url: str) -> Iterator[None]:
    """This thread's default connection leads to `url`; the one of the other tests is put aside and kept open."""
    aside = connections["default"]
    ours = ConnectionHandler({"default": settings_of(url)})["default"]
    connections["default"] = ours
    try:
        yield
    finally:
        ours.close()
        connections["default"] = aside
