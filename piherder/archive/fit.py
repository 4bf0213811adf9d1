"""Whether an archive fits this installation: engine, version, migrations, master key. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.models import Failure
from piherder.archive.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from piherder.archive.manifest import Manifest

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
WAYS = {
    "sqlite": "unset DATABASE_URL, or set it to sqlite:////an/absolute/path, and start again",
    "postgresql": "set DATABASE_URL to an empty PostgreSQL database and start again",
}


@dataclass(frozen=True, slots=True)
class Here:
    """This installation: its engine, its version, and the names of the migrations it knows, by app."""

    engine: str
    version: str
    known: Mapping[str, Collection[str]]


def require(found: Manifest, here: Here) -> None:
    """Raises ArchiveError in words when the archive cannot be brought back here."""
    engine = found.database.engine
    if engine != here.engine:
        raise ArchiveError(
            f"The archive holds a {NAMES[engine]} database and this installation uses {NAMES[here.engine]}; neither "
            f"can be restored into the other: {WAYS[engine]}.",
            Failure.REFUSED,
        )
    if numbers(found.piherder) > numbers(here.version):
        raise ArchiveError(
            f"The archive was made by PiHerder {found.piherder}, this is {here.version}: install that version first.",
            Failure.REFUSED,
        )
    newer = [f"{app} {name}" for app, name in found.migrations.items() if name not in here.known.get(app, [name])]
    if newer:
        raise ArchiveError(
            f"The archive's database is newer than this version of PiHerder ({newer[0]}): install the version that "
            f"made it{f', commit {found.commit[:12]}' if found.commit else ''}.",
            Failure.REFUSED,
        )


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, to compare."""
    return tuple(map(int, re.findall(r"\d+", version)))


def require_key(needed: Sequence[str], there: Sequence[str], *, by_variable: bool) -> None:
    """Every key that the archive's secrets were sealed with must be among those there will be. Raises ArchiveError."""
    lacking = [each for each in needed if each not in there]
    if not lacking:
        return
    way = "set PIHERDER_MASTER_KEYS to it" if by_variable else "name the file with --key"
    raise ArchiveError(
        f"This archive belongs to another master key (fingerprint {lacking[0]}): {way}. If that key is lost for good, "
        "--lost-key brings back all but the stored logins.",
        Failure.REFUSED,
    )
