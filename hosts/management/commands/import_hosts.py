"""`import_hosts`: take hosts over from an OpenSSH configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.db import transaction
from rich.text import Text

from hosts import importing
from hosts.management.door import HostCommand, can_ask, read_file
from hosts.openssh_import import read_config
from hosts.returning import brought_back
from jobs.management.door import FAILED, SUCCEEDED, WRONG_USE, me
from jobs.terminal import table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from hosts.importing import Planned
    from jobs.terminal import Cell

HEADS = ("", "host", "address", "user", "login key", "host key", "via", " ")


class Command(HostCommand):
    """Import hosts from ~/.ssh/config and known_hosts; a table is shown before anything is stored."""

    help = "Import hosts from an OpenSSH config; shows a table before it saves. No host is contacted."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which files, and whether to ask."""
        parser.add_argument("--config", default="~/.ssh/config", metavar="FILE")
        parser.add_argument("--known-hosts", action="append", metavar="FILE", help="may be given again")
        parser.add_argument("--key", metavar="FILE", help="login key for all of them (default: what the config names)")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def work(self, **options: Any) -> int:
        """Plan, show, ask, store."""
        known = [Path(name).expanduser() for name in options["known_hosts"] or default_known_hosts()]
        if options["key"]:
            read_file(options["key"])
        key = Path(options["key"]).expanduser() if options["key"] else None
        plan = importing.plan(read_config(Path(options["config"]).expanduser(), known), key)
        table(self.stdout, HEADS, [row(each) for each in plan])
        ready = [each for each in plan if not each.problem]
        if not ready:
            raise CommandError("None of these hosts can be imported.", returncode=FAILED)
        if not options["yes"]:
            self._ask(len(ready))
        back = {each.name: words for each in ready if (words := brought_back(each.name))}
        with transaction.atomic():
            for each in ready:
                importing.store(each, by=me().words)
        names = ", ".join(each.name for each in ready)
        self.stdout.write(f"Imported {names}. Give them sources with ./herder edit_host NAME --source PATH.")
        for name, words in back.items():
            self.stdout.write(f"{name} is back, with {words}.")
        return SUCCEEDED

    def _ask(self, count: int) -> None:
        if not can_ask():
            raise CommandError("Nobody can be asked whether to save these hosts: add --yes.", returncode=WRONG_USE)
        if not self.confirm(f"Save {count} host{'s' if count != 1 else ''}?"):
            raise CommandError("Nothing was stored.", returncode=FAILED)


def default_known_hosts() -> list[str]:
    """The user's file, if there is one."""
    return [name for name in ("~/.ssh/known_hosts",) if Path(name).expanduser().is_file()]


def row(each: Planned) -> list[Cell]:
    """A host of the plan as cells."""
    found = each.found
    pin = each.pins[0].fingerprint[:19] + "…" if each.pins else "–"
    mark = Text("skip", "yellow") if each.problem else Text("save", "green")
    place = f"{found.address}:{found.port}"
    return [mark, each.name, place, found.user or "root", each.key_name or "–", pin, each.jump or "–", each.remark]
