"""What a container of the image runs: `web`, `worker`, `beat`, `migrate`, `health`, or any command of ./herder.

The process becomes the program that it starts, so that signals reach it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import make_conninfo

from piherder import env
from piherder.house import serve
from piherder.house.folder import CLONE, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

SERVED = ("web", "worker", "beat")
SHELLS = ("sh", "bash")
PAUSE = 1.0
DATABASE_SECONDS = 60.0  # then the container ends, and the engine's restart policy tries again
MANAGE = (sys.executable, str(CLONE / "manage.py"))


def database_refusal() -> str:
    """Why the configured database takes no login now; "" when it does, and for SQLite."""
    found = env.database()
    if found.engine == "sqlite3":
        return ""
    address = {"host": found.host, "port": found.port, "user": found.user, "password": found.password}
    given = {name: value for name, value in address.items() if value} | dict(found.options)
    try:
        psycopg.connect(make_conninfo("", dbname=found.name, connect_timeout="3", **given)).close()
    except psycopg.OperationalError as error:
        return (str(error).strip().splitlines() or ["no reason given"])[0]
    return ""


def wait_for_database(seconds: float, refusal: Callable[[], str] = database_refusal, pause: float = PAUSE) -> None:
    """Returns when the database answers. Raises SystemExit in one sentence when it does not within `seconds`."""
    give_up = time.monotonic() + seconds
    while why := refusal():
        if time.monotonic() > give_up:
            sys.exit(f"The database cannot be used ({why}): look at its container and at DATABASE_URL.")
        time.sleep(pause)


def role_file() -> Path:
    """Where the container notes its role for `health`."""
    return Path(env.text("PIHERDER_RUNTIME", str(env.data_folder() / "run"))) / "role"


def note_role(role: str) -> None:
    """For `health`, which the engine starts beside the role's own process."""
    role_file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    role_file().write_text(role)


def migrate() -> int:
    """Brings the tables up to date, then makes what a first start needs; both may be repeated."""
    for command in (("migrate", "--no-input", "--verbosity", "1"), ("first_start",)):
        code = subprocess.run([*MANAGE, *command]).returncode
        if code:
            return code
    return 0


def health() -> tuple[str, ...]:
    """The command that asks whether this container's role does its work; one that has no role is well."""
    role = role_file().read_text().strip() if role_file().is_file() else ""
    return (*MANAGE, "healthcheck", role) if role in SERVED else ("true",)


def served(part: str, options: list[str]) -> tuple[str, ...]:
    """The program of a role; `--queue NAME` makes a worker of another queue than the common one.

    Raises Refused, BadEnvironment, and SystemExit for options that it does not know.
    """
    parser = argparse.ArgumentParser(prog=part)
    if part == "worker":
        parser.add_argument("--queue", default="")
    queue: str = getattr(parser.parse_args(options), "queue", "")
    return (*serve.command(part), *(("--queues", queue) if queue else ()))


def command(words: list[str]) -> tuple[str, ...]:
    """The program that the words behind `docker run IMAGE` stand for. Raises as `served` does."""
    first, rest = words[0], words[1:]
    if first == "health":
        return health()
    if first in SERVED:
        return served(first, rest)
    if first in SHELLS:
        return tuple(words)
    return (*MANAGE, *(rest if first == "herder" else words))


def main(arguments: list[str]) -> int:
    """Becomes the program, or returns the exit code of `migrate`."""
    os.umask(0o077)
    words = arguments or ["web"]
    try:
        if words[0] in SERVED:
            note_role(words[0])  # first of all: it is not well while it waits for the database
        if words[0] in (*SERVED, "migrate"):
            wait_for_database(DATABASE_SECONDS)
        if words == ["migrate"]:
            return migrate()
        argv = command(words)
        os.execvpe(argv[0], argv, serve.environment() if words[0] in SERVED else env.child_environment())
    except (Refused, env.BadEnvironment) as refusal:
        sys.exit(str(refusal))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
