"""The manifest of an archive: what made it, what is in it, and how each member is proven. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from piherder.archive.errors import ArchiveError

FORMAT = 1
NAME = "manifest.json"
LARGEST = 1 << 20  # bytes of a manifest
INSIDE, NOT_INSIDE = "inside", "not inside"
DUMPS = {"sqlite": "database.sqlite3.gz", "postgresql": "database.pgdump"}
SITE = "site/"
SITE_FILES = ("django.key", "install.id", "master.key")
LARGEST_SITE_FILE = 1 << 16  # bytes
ALLOWED = {*DUMPS.values(), *(f"{SITE}{name}" for name in SITE_FILES)}
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Member:
    """One file of the archive; `size` in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Engine:
    """The database: "sqlite" or "postgresql", its server's version, the major version of the tool that dumped it."""

    engine: str
    server: str
    tool: int = 0
    unpacked: int = 0  # bytes of the database file (SQLite)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything but the members' content. `created_at` in ISO 8601, UTC."""

    piherder: str
    commit: str
    created_at: str
    install_id: str
    database: Engine
    migrations: dict[str, str]
    master_key: str
    master_key_fingerprints: list[str]
    counts: dict[str, int]
    members: list[Member] = field(default_factory=list)
    format: int = FORMAT

    def to_bytes(self) -> bytes:
        """As the archive carries it."""
        return json.dumps(asdict(self), indent=1, sort_keys=True).encode() + b"\n"

    @property
    def dump(self) -> str:
        """Name of the member that holds the database."""
        return DUMPS[self.database.engine]


def read(data: bytes) -> Manifest:
    """The manifest in `data`. Raises ArchiveError for one that is damaged, odd, or of a later format."""
    try:
        raw = json.loads(data)
        made_by = raw["format"]
        if made_by == FORMAT:
            return _checked(_manifest(raw))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArchiveError("Its manifest cannot be read: the archive is damaged or none of PiHerder's.") from error
    raise ArchiveError(
        f"The archive has format {made_by!r}, this version reads format {FORMAT}: install the version that made it."
    )


def _manifest(raw: dict[str, Any]) -> Manifest:
    """Raises KeyError, TypeError or ValueError."""
    base = raw["database"]
    engine = Engine(_text(base["engine"]), _text(base["server"]), _number(base["tool"]), _number(base["unpacked"]))
    return Manifest(
        piherder=_text(raw["piherder"]),
        commit=_text(raw["commit"]),
        created_at=_text(raw["created_at"]),
        install_id=_text(raw["install_id"]),
        master_key=_text(raw["master_key"]),
        database=engine,
        migrations={_text(app): _text(name) for app, name in raw["migrations"].items()},
        master_key_fingerprints=[_text(each) for each in raw["master_key_fingerprints"]],
        counts={_text(name): _number(value) for name, value in raw["counts"].items()},
        members=[Member(_text(m["name"]), _number(m["size"]), _text(m["sha256"])) for m in raw["members"]],
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 1000 or not value.isprintable():
        raise TypeError("not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 60:
        raise TypeError("not a number")
    return value


def _checked(found: Manifest) -> Manifest:
    """Only names we know, each once, with sizes that can be. Raises ValueError or ArchiveError."""
    names = [member.name for member in found.members]
    strange = sorted(set(names) - ALLOWED)
    if strange:
        raise ArchiveError(f"The archive lists a file that no archive of PiHerder holds ({strange[0]}): do not use it.")
    if len(set(names)) != len(names) or found.dump not in names:
        raise ValueError("members")
    for member in found.members:
        if DIGEST.fullmatch(member.sha256) is None:
            raise ValueError("digest")
        if member.name.startswith(SITE) and member.size > LARGEST_SITE_FILE:
            raise ArchiveError(f"{member.name} is said to have {member.size:,} bytes, which no key has: do not use it.")
    if (found.master_key == INSIDE) != (f"{SITE}master.key" in names):
        raise ValueError("master key")
    return found
