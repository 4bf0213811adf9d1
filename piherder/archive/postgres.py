"""PostgreSQL: which of the installed tools fits, how it is called, and what it said."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosts.rsync.process import Child, Line, ProcessLeft, Stream
from jobs.models import Failure
from piherder import env
from piherder.archive.errors import ArchiveError, of_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

INSTALLED = Path("/usr/lib/postgresql")
SECRET = {"password": "PGPASSWORD"}
UNSPEAKABLE = {"sslpassword"}  # libpq reads it from nowhere but the connection string, which others could see
TABLE = re.compile(r"^\d+; \d+ \d+ TABLE \S+ (\S+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """An installed program and its major version."""

    path: str
    major: int


@dataclass(frozen=True, slots=True)
class Address:
    """A database as libpq's programs take it: a connection string without secrets, and the environment with them."""

    conninfo: str
    secrets: dict[str, str]


def address(settings: Mapping[str, Any]) -> Address:
    """The address in Django's `settings` of a database. Raises ArchiveError."""
    from psycopg import pq  # here, because it takes 6 MB in each process, and where SQLite is nobody needs it
    from psycopg.conninfo import make_conninfo

    known = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
    own = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    given = {name: value for name, value in settings.get("OPTIONS", {}).items() if name in known}
    given |= {word: settings.get(name) for word, name in own.items()}
    given = {word: str(value) for word, value in given.items() if value not in (None, "")}
    if UNSPEAKABLE & given.keys():
        raise ArchiveError(
            "pg_dump takes no sslpassword without showing it to others: use a client key without a password.",
            Failure.REFUSED,
        )
    secrets = {SECRET[word]: given.pop(word) for word in SECRET if word in given}
    return Address(make_conninfo("", **given), secrets)


def major_of(text: str) -> int:
    """The major version in the answer to `--version`; 0 when it holds none."""
    found = re.search(r"\(PostgreSQL\) (\d+)", text)
    return int(found[1]) if found else 0


def tools(name: str, installed: Path = INSTALLED) -> list[Tool]:
    """The programs of that name below /usr/lib/postgresql, newest first, then the one on the PATH."""
    paths = sorted(installed.glob(f"*/bin/{name}"), key=_version, reverse=True)
    on_path = shutil.which(name)
    return [Tool(path, major_of(_ask(path))) for path in [*map(str, paths), *([on_path] if on_path else [])]]


def _version(path: Path) -> float:
    try:
        return float(path.parts[-3])
    except ValueError:
        return 0.0


def _ask(path: str) -> str:
    try:
        return subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def choose(name: str, found: Iterable[Tool], least: int) -> Tool:
    """The program closest to version `least` that is not older: what a newer one writes, an older one cannot read.

    Raises ArchiveError naming the package to install.
    """
    fitting = sorted((tool for tool in found if tool.major >= least), key=lambda tool: tool.major)
    if fitting:
        return fitting[0]
    newest = max((tool.major for tool in found), default=0)
    why = f"{name} {newest} is older than what it must read (version {least})" if newest else f"{name} is not installed"
    raise ArchiveError(f"{why}: sudo apt install postgresql-client-{least}", Failure.REFUSED)


def dump(place: Address, server: int, goal: Path, tick: Callable[[], None]) -> Tool:
    """Dump the database into the new file `goal`, in pg_dump's custom format. Raises ArchiveError."""
    tool = choose("pg_dump", tools("pg_dump"), server)
    options = ["--format=custom", "--no-password", "--no-owner", "--no-privileges", f"--file={goal}"]
    run(tool, [*options, f"--dbname={place.conninfo}"], place.secrets, goal.name, tick)
    return tool


def restore(place: Address, dumped_by: int, server: int, source: Path, tick: Callable[[], None]) -> None:
    """Put a dump into the database, all of it or nothing. Raises ArchiveError."""
    tool = choose("pg_restore", tools("pg_restore"), max(server, dumped_by))
    options = ["--clean", "--if-exists", "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    run(tool, [*options, "--no-password", f"--dbname={place.conninfo}", str(source)], place.secrets, "it", tick)


def tables(dumped_by: int, source: Path, tick: Callable[[], None]) -> set[str]:
    """Names of the tables in a dump. Raises ArchiveError for a file that is no whole dump."""
    tool = choose("pg_restore", tools("pg_restore"), dumped_by)
    return set(TABLE.findall(run(tool, ["--list", str(source)], {}, "its list", tick)))


def run(tool: Tool, words: Sequence[str], secrets: Mapping[str, str], place: str, tick: Callable[[], None]) -> str:
    """Run a tool to its end; returns what it printed. Raises ArchiveError, and whatever `tick` raises."""
    said: dict[Stream, list[bytes]] = {Stream.STDOUT: [], Stream.STDERR: []}

    def hear(stream: Stream, line: Line) -> None:
        said[stream].append(line.raw)

    environment = {"PATH": env.text("PATH", os.defpath), "LC_ALL": "C.UTF-8", **secrets}
    if home := env.text("HOME"):  # where libpq looks for certificates
        environment["HOME"] = home
    name = Path(tool.path).name
    try:
        code = Child([tool.path, *words], env=environment).run(hear, tick)
    except ProcessLeft as left:
        raise ArchiveError(str(left)) from left
    if code:
        raise of_program(name, failure(b"\n".join(said[Stream.STDERR]).decode(errors="replace")), place)
    return b"\n".join(said[Stream.STDOUT]).decode(errors="replace")


def failure(said: str) -> str:
    """The first error among the lines that a tool printed; the rest follows from it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[-1] if lines else "")
