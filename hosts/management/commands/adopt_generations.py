"""`adopt_generations`: attach what lies on the backup disks to the hosts it came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from hosts.adopt import Adopted, adopt, root_at, taken_root
from hosts.management.door import HostCommand
from hosts.models import BackupRoot
from hosts.store.paths import StoreError
from hosts.words import count
from jobs.management.door import FAILED, SUCCEEDED, WRONG_USE, add_json
from jobs.terminal import table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from hosts.adopt import Shelf
    from jobs.terminal import Cell

HEADS = ("host", "source", "attached", "there before", "")


class Command(HostCommand):
    """Bring the rows of generations and the backup disks together; may be repeated."""

    help = (
        "Attach generations found on the backup disks to their hosts, and name those that cannot be; nothing on a disk "
        "is removed. Ends with 1 when something is left that a person should look at."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which disks, and how far."""
        parser.add_argument("--root", metavar="PATH", help="only this backup root; all of them when left out")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
        parser.add_argument(
            "--from-other-installation", action="store_true", dest="foreign", help="with --root: take it over"
        )
        parser.add_argument(
            "--trust-names",
            action="store_true",
            help="attach what another installation made of a host by its name alone, without a key that we know",
        )
        parser.add_argument(
            "--forget-missing", action="store_true", dest="forget", help="delete rows whose folder is gone"
        )
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Go through the roots; one that cannot be used hinders no other."""
        if options["foreign"] and not options["root"]:
            raise CommandError("--from-other-installation belongs to --root PATH.", returncode=WRONG_USE)
        done: dict[str, Adopted] = {}
        how = {name: options[name] for name in ("dry_run", "foreign", "forget", "trust_names")}
        complete = True
        for root in self._roots(options):
            try:
                done[root.path] = adopt(root, **how)
            except (StoreError, OSError) as trouble:
                self.stderr.write(str(trouble))
                complete = False
        self._show(done, as_json=options["as_json"], dry_run=options["dry_run"])
        return SUCCEEDED if complete and all(each.complete for each in done.values()) else FAILED

    def _roots(self, options: dict[str, Any]) -> list[BackupRoot]:
        if not options["root"]:
            return list(BackupRoot.objects.all())
        path = Path(options["root"]).expanduser().absolute()
        known = root_at(path)
        if known is None and options["foreign"]:
            known = taken_root(path, dry_run=options["dry_run"])
        if known is None:
            raise CommandError(
                f"{path} is no backup root of this installation: ./herder backup_root --add {path}",
                returncode=WRONG_USE,
            )
        return [known]

    def _show(self, done: dict[str, Adopted], *, as_json: bool, dry_run: bool) -> None:
        if as_json:
            self.emit([as_document(path, each) for path, each in done.items()])
            return
        shelves = [shelf for each in done.values() for shelf in each.shelves]
        table(self.stdout, HEADS, [row(shelf) for shelf in shelves], right=HEADS[2:4])
        for path, each in done.items():
            for line in each.lines:
                self.stderr.write(line)
            verb = "would be attached" if dry_run else "attached"
            self.stdout.write(f"{path}: {count(each.attached, 'generation')} {verb}, {each.there:,} there before.")


def row(shelf: Shelf) -> list[Cell]:
    """A source as cells."""
    return [shelf.host, shelf.source, f"{shelf.attached:,}", f"{shelf.there:,}", "new, off" if shelf.is_new else ""]


def as_document(path: str, each: Adopted) -> dict[str, Any]:
    """What became of a root, for a program."""
    names = ("attached", "missing", "unknown", "there", "sources", "passed_over", "complete", "lines")
    return {"root": path, **{name: getattr(each, name) for name in names}}
