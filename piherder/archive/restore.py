"""Bringing an archive back, its first part: unpack and look at everything; nothing outside a private folder changes.

What is found is handed to `placing.carry_out`; afterwards the backup disks are looked through.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from hosts.adopt import adopt
from hosts.models import BackupRoot
from hosts.store.paths import StoreError
from hosts.words import count
from jobs.models import Failure
from piherder import env
from piherder.archive import fit, postgres, site
from piherder.archive.dump import sqlite_file
from piherder.archive.errors import ArchiveError
from piherder.archive.keeper import no_tick, table_names
from piherder.archive.manifest import SITE
from piherder.archive.placing import own_tables
from piherder.archive.unpack import Unpacked, database_file, unpack

if TYPE_CHECKING:
    from piherder.archive.manifest import Manifest

OWN_ID = "install.id"  # stays as it is on each machine, see `keeper.Keeper.place`


@dataclass(frozen=True, slots=True)
class Ready:
    """An archive that was proven and fits here. `master_key` is what its file will hold, "" when it stays."""

    archive: Path
    manifest: Manifest
    database: Path
    site: dict[str, str]
    lines: list[str]


def work_parent() -> Path:
    """Where to unpack: beside the SQLite file, so that it gets its place by a rename, else the data folder."""
    return sqlite_file().resolve().parent if connection.vendor == "sqlite" else Path(settings.DATA)


def prepare(archive: Path, folder: Path, *, passphrase: bytes | None, key: str = "", lost_key: bool = False) -> Ready:
    """Unpack into `folder` and check everything. Raises ArchiveError; nothing outside `folder` was changed then."""
    unpacked = unpack(archive, passphrase, folder, no_tick)
    found = unpacked.manifest
    fit.require(found, here())
    placed = site_values(unpacked, key, lost_key=lost_key)
    database = database_file(unpacked, folder, no_tick)
    lines = described(found, placed)
    if found.database.engine == "postgresql":
        lines += require_known_tables(database, found.database.tool)
    return Ready(archive, found, database, placed, lines)


def here() -> fit.Here:
    """This installation, to compare an archive with."""
    known: dict[str, set[str]] = {}
    for app, name in MigrationLoader(None, ignore_no_migrations=True).disk_migrations:
        known.setdefault(app, set()).add(name)
    return fit.Here(connection.vendor, site.version(), known)


def site_values(unpacked: Unpacked, key: str, *, lost_key: bool) -> dict[str, str]:
    """What the site files will hold: the archive's, and `key` in place of its master key. Raises ArchiveError."""
    texts = {name: unpacked.text(f"{SITE}{name}") for name in site.VARIABLES if name != OWN_ID}
    texts["master.key"] = key or texts["master.key"]
    by_variable = bool(env.words(site.VARIABLES["master.key"]))
    keys = tuple(texts["master.key"].split())
    if by_variable or not keys:
        keys = site.master_keys()
    if lost_key:
        texts["master.key"] = texts["master.key"] or ("" if keys else secrets.token_urlsafe(48))
    else:
        there = site.fingerprints(keys)
        fit.require_key(unpacked.manifest.master_key_fingerprints, there, by_variable=by_variable)
    return {name: text for name, text in texts.items() if text and not env.text(site.VARIABLES[name])}


def require_known_tables(dump: Path, tool: int) -> list[str]:
    """Tables that are neither replaced nor PiHerder's would stay and may be in its way. Raises ArchiveError.

    Returns a sentence about what of the dump is not brought back.
    """
    listed = postgres.listing(tool, dump, no_tick)
    strange = sorted(set(table_names()) - listed.tables - own_tables())
    if strange:
        raise ArchiveError(
            f"The database holds tables that the archive does not know ({', '.join(strange[:3])}): set DATABASE_URL to "
            "an empty database and start again.",
            Failure.REFUSED,
        )
    named = ", ".join(listed.foreign[:5]) + (" …" if len(listed.foreign) > 5 else "")
    return [f"What is in the archive and not PiHerder's is left out: {named}."] if named else []


def described(found: Manifest, placed: dict[str, str]) -> list[str]:
    """What the archive is and what it would do, for people."""
    held = ", ".join(count(number, name.removesuffix("s")) for name, number in found.counts.items())
    version = f"PiHerder {found.piherder}" + (f" ({found.commit[:12]})" if found.commit else "")
    key = "inside" if found.master_key == "inside" else "not inside"
    lines = [
        f"The archive was made on {found.created_at} by {version}: {held}.",
        f"Every file in it is proven by its checksum; the master key is {key}.",
    ]
    if found.install_id != settings.PIHERDER_INSTALL_ID:
        lines.append(
            "It was made by another installation or on another machine: the backup disks of that one become this "
            "one's, and a herder that still runs there is refused by them."
        )
    changed = [name for name, text in placed.items() if not site.holds(name, text)]
    lines += [f"{settings.DATA / name} is written; what is there now is kept beside it." for name in changed]
    names = [each for name, each in site.VARIABLES.items() if name != OWN_ID and env.text(each)]
    return [*lines, *(f"{name} is set and stands above what the archive holds." for name in names)]


def reattach() -> list[str]:
    """Find the generations on every backup disk that is there; sentences about each."""
    lines = []
    for root in BackupRoot.objects.all():
        try:
            lines += adopt(root).lines
        except (StoreError, OSError) as away:
            lines.append(f"{away} When it is there: ./herder adopt_generations")
    return lines
