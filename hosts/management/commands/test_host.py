"""`test_host NAME`: can it be backed up, and if not, what is missing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from hosts import contact, enrol
from hosts.management.door import HostCommand
from jobs.management.door import FAILED, SUCCEEDED, add_json
from jobs.terminal import table

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(HostCommand):
    """Try a host as a job would."""

    help = (
        "Try a host as a job would: reach, host key, login, sudo, rsync, flock, disk, sources; names what is missing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which."""
        parser.add_argument("name")
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Look, print a line per check, then what to do; exit code 1 when something is missing."""
        host = enrol.host_named(options["name"])
        checks = contact.examine(host)
        bad = [check for check in checks if not check.well]
        if options["as_json"]:
            self.emit({"host": host.name, "well": not bad, "checks": [asdict(check) for check in checks]})
            return FAILED if bad else SUCCEEDED
        marks = {True: Text("ok", "green"), False: Text("no", "red")}
        table(self.stdout, ("", "check", " "), [(marks[check.well], check.name, check.words) for check in checks])
        for check in bad:
            self.stderr.write(check.advice)
        return FAILED if bad else SUCCEEDED
