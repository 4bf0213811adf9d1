"""`backup_root`: list the folders that backups go to, or add one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from rich.text import Text

from hosts.management.door import HostCommand
from hosts.models import BackupRoot
from hosts.root_admin import RootView, add_root, view
from jobs.management.door import FAILED, SUCCEEDED, WRONG_USE, add_json
from jobs.spans import size
from jobs.terminal import table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.terminal import Cell


class Command(HostCommand):
    """List backup roots, or add one."""

    help = "List the folders that backups go to, or add one; its disk is probed and marked."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which folder."""
        parser.add_argument("--add", metavar="PATH", help="a folder that is there; may be one that is known")
        parser.add_argument("--default", action="store_true", help="with --add: use it where a host names none")
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Add, then list; exit code 1 when one cannot be used."""
        if options["default"] and not options["add"]:
            raise CommandError("--default belongs to --add PATH.", returncode=WRONG_USE)
        if options["add"]:
            add_root(Path(options["add"]).expanduser().absolute(), default=options["default"])
        views = [view(row) for row in BackupRoot.objects.all()]
        if options["as_json"]:
            self.emit([each.as_json() for each in views])
        elif views:
            self._show(views)
        else:
            self.stdout.write("There is no backup root yet: ./herder backup_root --add PATH --default")
        return FAILED if any(each.problem for each in views) else SUCCEEDED

    def _show(self, views: list[RootView]) -> None:
        table(self.stdout, ("backup root", "", "state", "free", "room for"), [row(each) for each in views])
        for each in views:
            if each.problem:
                self.stderr.write(each.problem)
            for note in each.notes:
                self.hint(f"{each.path}: {note}")


def row(each: RootView) -> list[Cell]:
    """A root as cells."""
    state = Text("not usable", "red") if each.problem else Text("ready", "green")
    inodes = "" if each.free_inodes is None else f"{each.free_inodes:,} files"
    return [each.path, "default" if each.is_default else "", state, size(each.free_bytes), inodes]
