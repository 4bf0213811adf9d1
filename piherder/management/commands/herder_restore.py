"""`herder_restore ARCHIVE`: bring the herder itself back, onto an empty machine or over what is there."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import CommandError

from hosts.management.door import can_ask, read_file
from hosts.vault import SealBroken
from jobs.management.door import BUSY, FAILED, SUCCEEDED, WRONG_USE, DoorCommand, me
from piherder.archive import passphrase, shelf
from piherder.archive.errors import ArchiveError
from piherder.archive.keeper import holds_something
from piherder.archive.make import RESTORE, workplace
from piherder.archive.placing import carry_out
from piherder.archive.restore import prepare, reattach, work_parent
from piherder.archive.running import require_nobody, users
from piherder.archive.unfinished import UnderWay, alone
from piherder.archive.unpack import is_encrypted

if TYPE_CHECKING:
    from argparse import ArgumentParser

NEXT = (
    "The herd is on hold: nothing starts until ./herder release. Log in as before, look at the hosts, start the "
    "herder, then release it. Where the one that the archive is of still runs: stop that for good before."
)


class Command(DoorCommand):
    """Bring an archive back."""

    help = "Bring an archive of the herder itself back; afterwards the herd is on hold until you release it."
    troubles = (ArchiveError, SealBroken, OSError)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which archive, and with which keys."""
        parser.add_argument("archive", help="path of the archive")
        parser.add_argument("--dry-run", action="store_true", help="check everything and only say what would happen")
        parser.add_argument("--passphrase-file", metavar="F", help="its first line opens an encrypted archive")
        key = parser.add_mutually_exclusive_group()
        key.add_argument("--key", metavar="FILE", help="the master key, when it is not in the archive")
        key.add_argument("--lost-key", action="store_true", help="go on without it: stored logins are lost")
        parser.add_argument("--yes", action="store_true", help="replace a database that holds something, unasked")

    def work(self, **options: Any) -> int:
        """Check, ask, replace, attach; each step says what it did."""
        with alone(settings.DATA, work_parent()):
            return self._restore(Path(options["archive"]).expanduser().absolute(), options)

    def trouble_code(self, error: Exception) -> int:
        """Somebody is at work here."""
        return BUSY if isinstance(error, UnderWay) else FAILED

    def _restore(self, archive: Path, options: dict[str, Any]) -> int:
        shelf.remove_leftovers(work_parent(), RESTORE)
        with workplace(work_parent(), RESTORE) as folder:
            key = read_file(options["key"]) if options["key"] else ""
            secret = self._passphrase(archive, options["passphrase_file"])
            ready = prepare(archive, folder, passphrase=secret, key=key, lost_key=options["lost_key"])
            for line in ready.lines:
                self.stdout.write(line)
            if options["dry_run"]:
                self._say_what_would_happen()
                return SUCCEEDED
            require_nobody(users())
            self._agree(yes=options["yes"])
            carry_out(ready, me(), self.stdout.write)
        for line in reattach():
            self.stdout.write(line)
        self.stdout.write(NEXT)
        return SUCCEEDED

    def _passphrase(self, archive: Path, name: str | None) -> bytes | None:
        if not is_encrypted(archive):
            return None
        if name:
            return passphrase.read(Path(name).expanduser())
        known = passphrase.configured()
        if known is None and can_ask():
            return passphrase.checked(getpass.getpass("Passphrase of the archive: ").encode(), "what you type")
        return known

    def _say_what_would_happen(self) -> None:
        if holds_something():
            self.stdout.write("The database holds something: it would be copied aside and replaced.")
        else:
            self.stdout.write("The database is empty and would be filled.")
        self.stdout.write("Nothing was changed.")

    def _agree(self, *, yes: bool) -> None:
        if yes or not holds_something():
            return
        if not can_ask():
            raise CommandError(
                "The database holds something; to copy it aside and replace it, add --yes.", returncode=WRONG_USE
            )
        self.stderr.write("The database holds something. Copy it aside and replace it? [y/N] ", ending="")
        self.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise CommandError("Nothing was changed.", returncode=FAILED)
