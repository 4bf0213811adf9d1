"""PostgreSQL: which of the installed tools fits, how it is called, and what it said."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from hosts.rsync.process import Child, Line, ProcessLeft, Stream
from jobs.models import Failure
from piherder import env
from piherder.archive.errors import ArchiveError, of_program, of_system
from piherder.archive.pipe import pour

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

INSTALLED = Path("/usr/lib/postgresql")
SECRET = {"password": "PGPASSWORD"}
UNSPEAKABLE = {"sslpassword"}  # libpq reads it from nowhere but the connection string, which others could see
# What tables consist of, as `pg_restore --list` names it: all that PiHerder has in a database.
OURS = (
    *("TABLE DATA", "TABLE", "SEQUENCE SET", "SEQUENCE OWNED BY", "SEQUENCE", "DEFAULT"),
    *("FK CONSTRAINT", "CHECK CONSTRAINT", "CONSTRAINT", "INDEX"),
)
THEIRS = ("EXTENSION", "MATERIALIZED VIEW", "VIEW", "FUNCTION", "PROCEDURE", "TYPE", "DOMAIN", "TRIGGER")
ENTRY = re.compile(rf"^\d+; \d+ \d+ ({'|'.join(OURS + THEIRS)}) (\S+) (.*) \S*$", re.MULTILINE)
PLACE = re.compile(r"^psql:<stdin>:\d+: ERROR:\s+")


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


@dataclass(frozen=True, slots=True)
class Listing:
    """What a dump holds: the schema of PiHerder's tables, their names, the lines of its list that belong to them, and
    what else is in it and not PiHerder's.
    """

    schema: str
    tables: frozenset[str]
    lines: tuple[str, ...]
    foreign: tuple[str, ...]


def listing(dumped_by: int, source: Path, tick: Callable[[], None]) -> Listing:
    """What is in a dump. Raises ArchiveError for a file that is no whole dump."""
    tool = choose("pg_restore", tools("pg_restore"), dumped_by)
    return read_listing(run(tool, ["--list", str(source)], {}, "its list", tick))


def read_listing(text: str) -> Listing:
    """What `pg_restore --list` printed."""
    found = [(match[1], match[2], match[3], match[0]) for match in ENTRY.finditer(text)]
    tables = [(schema, name) for kind, schema, name, _ in found if kind == "TABLE"]
    mine = next((schema for schema, name in tables if name == "django_migrations"), "public")
    return Listing(
        mine,
        frozenset(name for schema, name in tables if schema == mine),
        tuple(line for kind, schema, _, line in found if kind in OURS and schema == mine),
        tuple(
            f"{kind.lower()} {name}"
            for kind, schema, name, _ in found
            if kind in THEIRS or (kind == "TABLE" and schema != mine)
        ),
    )


def restore(
    place: Address, dumped_by: int, server: int, source: Path, *, replaced: Iterable[str] = (), then: str = ""
) -> None:
    """Put the tables of a dump in the place of those that are there, and of `replaced`, all of it or nothing.

    `then` is SQL that belongs to it: nobody sees the restored tables without what it did. What is not PiHerder's is
    neither dropped nor brought back. Raises ArchiveError.
    """
    reader = choose("pg_restore", tools("pg_restore"), max(server, dumped_by))
    writer = choose("psql", tools("psql"), reader.major)
    found = listing(dumped_by, source, lambda: None)
    with NamedTemporaryFile("w", dir=source.parent) as kept:
        kept.write("".join(f"{line}\n" for line in found.lines))
        kept.flush()
        read = [reader.path, f"--use-list={kept.name}", str(source)]
        _through(read, writer, place, dropping(found.schema, found.tables.union(replaced)), then)


def replace_all(place: Address, server: int, source: Path) -> None:
    """Put a dump that was made here in the place of all that our user owns, all of it or nothing. Raises ArchiveError.

    For a database that is ours alone: tables that a later version made go as well.
    """
    reader = choose("pg_restore", tools("pg_restore"), server)
    writer = choose("psql", tools("psql"), reader.major)
    _through([reader.path, str(source)], writer, place, "DROP OWNED BY CURRENT_USER;", "")


def _through(read: Sequence[str], writer: Tool, place: Address, before: str, then: str) -> None:
    """From pg_restore to psql in one transaction, between two statements. Raises ArchiveError."""
    write = [writer.path, "--no-psqlrc", "--quiet", "--no-password", "--set=ON_ERROR_STOP=1"]
    try:
        was_read, was_written = pour(
            [*read, "--no-owner", "--no-privileges", "--file=-"],
            [*write, f"--dbname={place.conninfo}", "--file=-"],
            before,
            then,
            environment(place.secrets),
        )
    except OSError as error:
        raise of_system(error, writer.path) from error
    if was_written.code:
        raise refusal(was_written.text)
    if was_read.code:
        raise of_program("pg_restore", failure(was_read.text), "it")


def dropping(schema: str, names: Iterable[str]) -> str:
    """The statement that removes tables with what binds them to each other.

    One statement, so that their order does not matter, and without CASCADE: what others hung on them is not ours.
    """
    listed = ", ".join(f"{quoted(schema)}.{quoted(name)}" for name in sorted(names))
    return f"SET LOCAL client_min_messages = warning;\nDROP TABLE IF EXISTS {listed};" if listed else ""


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def refusal(said: str) -> ArchiveError:
    """What psql stumbled over."""
    if "other objects depend on" in said:
        detail = next((line for line in said.splitlines() if line.startswith("DETAIL:")), "").removeprefix("DETAIL:")
        return ArchiveError(
            f"Something that is not PiHerder's hangs on its tables ({detail.strip()}): remove that first, then start "
            "again; nothing was changed.",
            Failure.REFUSED,
        )
    return of_program("psql", PLACE.sub("", failure(said)), "it")


def run(tool: Tool, words: Sequence[str], secrets: Mapping[str, str], place: str, tick: Callable[[], None]) -> str:
    """Run a tool to its end; returns what it printed. Raises ArchiveError, and whatever `tick` raises."""
    said: dict[Stream, list[bytes]] = {Stream.STDOUT: [], Stream.STDERR: []}

    def hear(stream: Stream, line: Line) -> None:
        said[stream].append(line.raw)

    name = Path(tool.path).name
    try:
        code = Child([tool.path, *words], env=environment(secrets)).run(hear, tick)
    except ProcessLeft as left:
        raise ArchiveError(str(left)) from left
    if code:
        raise of_program(name, failure(b"\n".join(said[Stream.STDERR]).decode(errors="replace")), place)
    return b"\n".join(said[Stream.STDOUT]).decode(errors="replace")


def environment(secrets: Mapping[str, str]) -> dict[str, str]:
    """What a tool gets of ours, and the secrets."""
    home = env.text("HOME")  # where libpq looks for certificates
    return {"PATH": env.text("PATH", os.defpath), "LC_ALL": "C.UTF-8", **({"HOME": home} if home else {}), **secrets}


def failure(said: str) -> str:
    """The first error among the lines that a tool printed; the rest follows from it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line.lower()), lines[-1] if lines else "")
