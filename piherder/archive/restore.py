"""Bringing an archive back: look at everything first, keep what is there aside, put, settle.

Until `carry_out` nothing outside a private folder is changed. With SQLite the restored database is migrated and
settled before it gets its place by one rename; with PostgreSQL the dump goes in as one transaction and is settled
right after. Whatever interrupts it, the same command can be given again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from hosts.adopt import adopt
from hosts.models import BackupRoot
from hosts.roots import mounted
from hosts.store.paths import StoreError
from hosts.store.root import sync_folder
from hosts.words import count
from jobs.models import Failure
from jobs.registry import JobFailed
from jobs.services import hold
from piherder import env
from piherder.archive import fit, postgres, shelf, site, sqlite
from piherder.archive.aftermath import reason, settle
from piherder.archive.dump import server_major, sqlite_file
from piherder.archive.errors import ArchiveError, of_system
from piherder.archive.manifest import SITE
from piherder.archive.names import stamp
from piherder.archive.unpack import Unpacked, database_file, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobs.services import Asker
    from piherder.archive.manifest import Manifest

SIDE_FILES = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database


@dataclass(frozen=True, slots=True)
class Ready:
    """An archive that was proven and fits here. `master_key` is what its file will hold, "" when it stays."""

    name: str
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
    if found.database.engine == "postgresql":
        require_known_tables(database, found.database.tool)
    return Ready(archive.name, found, database, placed, described(found, placed))


def no_tick() -> None:
    """Nobody cancels a restore: it ends by itself."""


def here() -> fit.Here:
    """This installation, to compare an archive with."""
    known: dict[str, set[str]] = {}
    for app, name in MigrationLoader(None, ignore_no_migrations=True).disk_migrations:
        known.setdefault(app, set()).add(name)
    return fit.Here(connection.vendor, site.version(), known)


def site_values(unpacked: Unpacked, key: str, *, lost_key: bool) -> dict[str, str]:
    """What the site files will hold: the archive's, and `key` in place of its master key. Raises ArchiveError."""
    texts = {name: unpacked.text(f"{SITE}{name}") for name in site.VARIABLES}
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


def require_known_tables(dump: Path, tool: int) -> None:
    """Tables that the dump does not replace would stay and be in its way. Raises ArchiveError."""
    listed = postgres.tables(tool, dump, no_tick)
    strange = sorted(set(table_names()) - listed)
    if strange:
        raise ArchiveError(
            f"The database holds tables that the archive does not know ({', '.join(strange[:3])}): set DATABASE_URL to "
            "an empty database and start again.",
            Failure.REFUSED,
        )


def table_names() -> list[str]:
    """Tables of the database as it is now; none for a SQLite file that is not there. Raises DatabaseError."""
    if connection.vendor == "sqlite" and not sqlite_file().exists():
        return []
    try:
        return connection.introspection.table_names()
    finally:
        connection.close()


def holds_something() -> bool:
    """Whether there is a database to be kept aside; a damaged one counts."""
    try:
        return bool(table_names())
    except DatabaseError:
        return True


def described(found: Manifest, placed: dict[str, str]) -> list[str]:
    """What the archive is and what it would do, for people."""
    held = ", ".join(count(number, name.removesuffix("s")) for name, number in found.counts.items())
    version = f"PiHerder {found.piherder}" + (f" ({found.commit[:12]})" if found.commit else "")
    key = "inside" if found.master_key == "inside" else "not inside"
    lines = [
        f"The archive was made on {found.created_at} by {version}: {held}.",
        f"Every file in it is proven by its checksum; the master key is {key}.",
    ]
    changed = [name for name, text in placed.items() if not site.holds(name, text)]
    lines += [f"{settings.DATA / name} is written; what is there now is kept beside it." for name in changed]
    names = [site.VARIABLES[name] for name in site.VARIABLES if env.text(site.VARIABLES[name])]
    return [*lines, *(f"{name} is set and stands above what the archive holds." for name in names)]


def carry_out(ready: Ready, asker: Asker, say: Callable[[str], None]) -> None:
    """Put everything in place. Raises ArchiveError; what fails before the last step leaves what was there as it was."""
    moment = stamp(timezone.now())
    folder: Path = settings.PIHERDER_ARCHIVES
    mine = ready.manifest.install_id
    try:
        shelf.enter(folder, mine if shelf.owner(folder) == mine else settings.PIHERDER_INSTALL_ID)
        put = put_sqlite if connection.vendor == "sqlite" else put_postgresql
        ended = put(ready, asker, Keeper(folder, moment, say))
    except OSError as error:
        raise of_system(error, error.filename or settings.DATA) from error
    say(f"The database is restored; {count(ended, 'job')} that {'was' if ended == 1 else 'were'} active then ended.")


@dataclass(frozen=True, slots=True)
class Keeper:
    """Keeps aside what a restore replaces, and says where."""

    folder: Path
    moment: str
    say: Callable[[str], None]

    def database(self) -> None:
        """Copy the database as it is now, if there is one. Raises ArchiveError or OSError."""
        if holds_something():
            self.say(f"What was in the database is kept in {keep_aside(self.folder, self.moment)}.")

    def place(self, texts: dict[str, str], install_id: str) -> None:
        """Write the site files; from then on this process is the restored installation. Raises OSError.

        The archives' folder becomes that one's first: a restore that is killed here finds it so when it is repeated.
        """
        shelf.claim(self.folder, install_id)
        site.give(self.folder)
        site.give(self.folder / shelf.MARKER)
        for placed in filter(None, (site.put(name, text, self.moment) for name, text in texts.items())):
            self.say(f"{placed.path} is written." + (f" The earlier one is {placed.aside}." if placed.aside else ""))
        settings.PIHERDER_INSTALL_ID = texts.get("install.id", settings.PIHERDER_INSTALL_ID)


def put_sqlite(ready: Ready, asker: Asker, keeper: Keeper) -> int:
    """Migrate and settle the restored file, then give it its place; returns the number of jobs ended."""
    with speaking_to(ready.database):
        ended = bring_up(ready, asker)
    keeper.database()
    keeper.place(ready.site, ready.manifest.install_id)
    replace_sqlite(ready.database, sqlite_file().resolve())
    return ended


def put_postgresql(ready: Ready, asker: Asker, keeper: Keeper) -> int:
    """Replace the database by the dump in one transaction, migrate and settle it; returns the number of jobs ended."""
    keeper.database()
    address, server = postgres.address(connection.settings_dict), server_major()
    connection.close()
    postgres.restore(address, ready.manifest.database.tool, server, ready.database, no_tick)
    keeper.place(ready.site, ready.manifest.install_id)
    return bring_up(ready, asker)


def keep_aside(folder: Path, moment: str) -> Path:
    """A copy of the database as it is now; of a damaged one its files as they are. Raises ArchiveError or OSError."""
    ending = "sqlite3" if connection.vendor == "sqlite" else "pgdump"
    name = f"before-restore-{moment}.{ending}"
    partial = folder / f"{shelf.PARTIAL}{name}"
    if connection.vendor == "sqlite":
        try:
            sqlite.copy(sqlite_file(), partial, no_tick)
        except ArchiveError as error:
            if error.code == Failure.NO_SPACE:
                raise
            return keep_files(folder, name)
    else:
        postgres.dump(postgres.address(connection.settings_dict), server_major(), partial, no_tick)
        connection.close()
    partial.chmod(0o600)
    site.give(partial)
    shelf.sync_file(partial)
    return shelf.publish(folder, name)


def keep_files(folder: Path, name: str) -> Path:
    """The files of a damaged SQLite database as they are. Raises OSError."""
    for ending in ("", *SIDE_FILES):
        source = Path(f"{sqlite_file()}{ending}")
        if source.exists():
            shutil.copyfile(source, folder / f"{name}.damaged{ending}")
            (folder / f"{name}.damaged{ending}").chmod(0o600)
    return folder / f"{name}.damaged"


def bring_up(ready: Ready, asker: Asker) -> int:
    """Hold the herd, migrate what an older version made, end what was active. Raises ArchiveError."""
    with suppress(DatabaseError):  # of tables from before this version; it is held below at the latest
        hold(reason(ready.name), asker=asker)
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except (DatabaseError, CommandError) as error:
        said = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ArchiveError(f"The database in the archive cannot be brought up to this version ({said}).") from error
    return settle(ready.name, asker)


@contextmanager
def speaking_to(database: Path) -> Iterator[None]:
    """Within the block this process's connection is one to the SQLite file `database`, a single file afterwards."""
    connection.close()
    usual = connection.settings_dict["NAME"]
    connection.settings_dict["NAME"] = str(database)
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = usual
    sqlite.single_file(database)


def replace_sqlite(new: Path, place: Path) -> None:
    """Give the checked file its place. Raises OSError.

    What the old database keeps beside it goes first: SQLite would take it for the new one's. A copy of all that is
    kept aside by then.
    """
    connection.close()
    site.give(new)
    shelf.sync_file(new)
    for ending in SIDE_FILES:
        Path(f"{place}{ending}").unlink(missing_ok=True)
    os.replace(new, place)
    sync_folder(place.parent)


def reattach() -> list[str]:
    """Find the generations on every backup disk that is there; sentences about each."""
    lines = []
    for root in BackupRoot.objects.all():
        try:
            mounted(root)
            lines += adopt(root).lines
        except (JobFailed, StoreError, OSError) as away:
            lines.append(f"{away} When it is there: ./herder adopt_generations")
    return lines
