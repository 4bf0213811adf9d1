"""`schedules`: when each runs, when it ran, and what it skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from jobs.management.door import SUCCEEDED, DoorCommand, add_json
from jobs.models import EngineSettings
from jobs.spans import ago, stamp
from jobs.terminal import table
from jobs.timetable import Entry, timetable

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.terminal import Cell

HEADS = ("schedule", "rhythm", "kind", "where", "next", "last", "started", "skipped")


class Command(DoorCommand):
    """List schedules."""

    help = "List schedules: when they run, when they ran, what they skipped and why."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Only the form."""
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Print them, then the reasons of skipped runs."""
        entries = timetable()
        if options["as_json"]:
            self.emit([entry.as_json() for entry in entries])
            return SUCCEEDED
        if not entries:
            self.stdout.write("There are no schedules yet: ./herder first_start makes the usual ones.")
        table(self.stdout, HEADS, [row(entry) for entry in entries], right=("started", "skipped"))
        self._skipped(entries)
        if EngineSettings.load().held:
            self.hint("The herd is on hold: nothing fires until ./herder release.")
        return SUCCEEDED

    def _skipped(self, entries: list[Entry]) -> None:
        reasons = [(entry.name, line) for entry in entries if entry.last for line in entry.last.text.splitlines()]
        reasons += [(entry.name, entry.problem) for entry in entries if entry.problem]
        if reasons:
            self.stdout.write("")
            table(self.stdout, ("schedule", "what its last run skipped"), reasons)


def row(entry: Entry) -> list[Cell]:
    """A schedule as cells."""
    last = entry.last
    coming: Cell = f"{stamp(entry.next_due)} ({ago(entry.next_due)})" if entry.next_due else Text("off", "dim")
    ran = ago(last.fired_at) if last else "never"
    counts = [str(last.started), str(last.skipped)] if last else ["–", "–"]
    return [entry.name, entry.rhythm, entry.kind, entry.where, coming, ran, *counts]
