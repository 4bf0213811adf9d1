"""The last part of a restore: everything gets its place. Until the marker is set nothing was changed.

With SQLite the restored database is migrated and settled before it gets its place by one rename. With PostgreSQL the
tables come in one transaction that holds the herd, and are migrated and settled right after. From the marker to its
removal nothing of the herder starts; whatever interrupts it, the same command can be given again.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Max
from django.utils import timezone

from hosts.store.root import sync_folder
from hosts.words import count
from jobs.models import Job
from jobs.services import hold
from piherder.archive import postgres, running, shelf, site, sqlite, unfinished
from piherder.archive.aftermath import holding, reason, settle
from piherder.archive.dump import server_major, sqlite_file
from piherder.archive.errors import ArchiveError, of_system
from piherder.archive.keeper import SIDE_FILES, Keeper
from piherder.archive.names import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobs.services import Asker
    from piherder.archive.restore import Ready
    from piherder.archive.unfinished import Mark


def carry_out(ready: Ready, asker: Asker, say: Callable[[str], None]) -> None:
    """Put everything in place. Raises ArchiveError; what fails before the marker leaves what was there as it was."""
    folder: Path = settings.PIHERDER_ARCHIVES
    theirs = ready.manifest.install_id
    try:
        shelf.enter(folder, theirs if shelf.owner(folder) == theirs else settings.PIHERDER_INSTALL_ID)
        put = put_sqlite if connection.vendor == "sqlite" else put_postgresql
        ended = put(ready, asker, Keeper(folder, stamp(timezone.now()), say))
    except OSError as error:
        raise of_system(error, error.filename or settings.DATA) from error
    say(f"The database is restored; {count(ended, 'job')} that {'was' if ended == 1 else 'were'} active then ended.")


def put_sqlite(ready: Ready, asker: Asker, keeper: Keeper) -> int:
    """Migrate and settle the restored file, then give it its place; returns the number of jobs ended."""
    with speaking_to(ready.database):
        ended, last = bring_up(ready, asker), last_job(ready)
    keeper.database()
    mark = begin(ready)
    keeper.logs(last)
    keeper.place(ready.site, ready.manifest.install_id)
    replace_sqlite(ready.database, sqlite_file().resolve())
    mark.done()
    return ended


def put_postgresql(ready: Ready, asker: Asker, keeper: Keeper) -> int:
    """Replace the tables by those of the dump, migrate and settle them; returns the number of jobs ended."""
    keeper.database()
    address, server = postgres.address(connection.settings_dict), server_major()
    connection.close()
    mark = begin(ready)
    try:
        swap_tables(ready, asker, address, server)
    except ArchiveError:
        mark.undone()
        raise
    keeper.logs(last_job(ready))
    keeper.place(ready.site, ready.manifest.install_id)
    ended = bring_up(ready, asker)
    mark.done()
    return ended


def begin(ready: Ready) -> Mark:
    """Set the marker, then look once more whether anybody is there: who comes now is refused. Raises UnderWay."""
    mark = unfinished.mark(ready.archive)
    try:
        running.require_nobody(running.present())
    except BaseException:
        mark.undone()
        raise
    return mark


def swap_tables(ready: Ready, asker: Asker, address: postgres.Address, server: int) -> None:
    """One transaction: the tables of the dump for those that are there, and the herd on hold. Raises ArchiveError."""
    found = ready.manifest.database
    schema = postgres.listing(found.tool, ready.database, lambda: None).schema
    then = holding(schema, ready.archive.name, asker)
    postgres.restore(address, found.tool, server, ready.database, replaced=own_tables(), then=then)


def own_tables() -> set[str]:
    """Names of all tables that this version makes."""
    models = apps.get_models(include_auto_created=True)
    return {MigrationRecorder.Migration._meta.db_table, *(model._meta.db_table for model in models)}


def last_job(ready: Ready) -> int:
    """The highest number of a job whose log may lie here; none when the archive is of another installation."""
    if ready.manifest.install_id != settings.PIHERDER_INSTALL_ID:
        return 0
    return Job.objects.aggregate(top=Max("pk"))["top"] or 0


def bring_up(ready: Ready, asker: Asker) -> int:
    """Hold the herd, migrate what an older version made, end what was active. Raises ArchiveError."""
    name = ready.archive.name
    with suppress(DatabaseError):  # of tables from before this version; it is held below at the latest
        hold(reason(name), asker=asker)
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except (DatabaseError, CommandError) as error:
        said = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise ArchiveError(f"The database in the archive cannot be brought up to this version ({said}).") from error
    return settle(name, asker)


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
