"""`keep_generation HOST SOURCE SEQUENCE`: keep it for ever, or no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosts.enrol import source_of
from hosts.management.door import HostCommand
from hosts.management.lookup import any_host, good_generation
from hosts.shelf import keep, let_go
from jobs.management.door import SUCCEEDED

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(HostCommand):
    """Pin a generation, or release it."""

    help = "Keep a generation for ever, whatever the retention rule says."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which, and why."""
        parser.add_argument("host")
        parser.add_argument("source", help="path of the source")
        parser.add_argument("sequence", help="its number, or latest")
        parser.add_argument("--note", default="", help="why it is kept")
        parser.add_argument("--release", action="store_true", help="keep it no longer than the rule says")

    def work(self, **options: Any) -> int:
        """Set or clear the pin; a generation that retention has just taken is not kept any more."""
        found = good_generation(source_of(any_host(options["host"]), options["source"]), options["sequence"])
        if options["release"]:
            let_go(found)
        else:
            keep(found, options["note"])
        words = "follows the retention rule again" if options["release"] else "is kept for ever"
        self.stdout.write(f"Generation {found.sequence} of {found.source} {words}.")
        return SUCCEEDED
