"""`generations HOST`: what is kept of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from hosts.management.door import HostCommand
from hosts.management.lookup import any_host
from hosts.models import Generation, GenerationStatus
from jobs.management.door import SUCCEEDED, add_json
from jobs.spans import ago, size, stamp
from jobs.terminal import table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.terminal import Cell

HEADS = ("source", "generation", "taken", "files", "size", "changed", "proven restorable", "state", "")
STYLES = {GenerationStatus.GOOD: "green", GenerationStatus.WRITING: "cyan", GenerationStatus.DELETING: "dim"}


class Command(HostCommand):
    """List the generations of a host, newest first."""

    help = "List what is kept of a host, per source, newest first; also of a host that was removed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which."""
        parser.add_argument("host")
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Print them."""
        host = any_host(options["host"])
        rows = Generation.objects.filter(source__host=host).select_related("source__host", "root")
        found = list(rows.order_by("source__path", "-sequence"))
        if options["as_json"]:
            self.emit([as_json(each) for each in found])
        elif found:
            table(self.stdout, HEADS, [row(each) for each in found], right=("generation", "files", "size", "changed"))
        else:
            self.stdout.write(
                f"Nothing is kept of {host.name} yet: ./herder run_job backup --host {host.name} --follow"
            )
        return SUCCEEDED


def row(each: Generation) -> list[Cell]:
    """A generation as cells."""
    taken = each.finished_at or each.started_at
    kept = f"kept for ever{f': {each.kept_note}' if each.kept_note else ''}" if each.kept_at else ""
    warned = f"{len(each.warnings)} warning{'s' if len(each.warnings) != 1 else ''}" if each.warnings else ""
    notes = "; ".join(word for word in (each.verify_problem, warned, kept) if word)
    proven: Cell = ago(each.verified_at) if not each.verify_problem else Text("no", "red")
    return [
        each.source.path, str(each.sequence), f"{stamp(taken)} ({ago(taken)})", f"{each.files:,}", size(each.bytes),
        f"{each.changed_files:,}", proven, Text(each.status, STYLES[GenerationStatus(each.status)]), notes,
    ]  # fmt: skip


def as_json(each: Generation) -> dict[str, Any]:
    """A generation for a program."""
    names = (
        "sequence", "status", "started_at", "finished_at", "files", "bytes", "changed_files", "changed_bytes",
        "rsync_code", "warnings", "fake_super", "kept_at", "kept_note", "verified_at", "verified_files",
        "verified_bytes", "verify_problem",
    )  # fmt: skip
    return {
        "host": each.source.host.name, "source": each.source.path, "path": str(each.path), "job": each.job_id,
        **{name: getattr(each, name) for name in names},
    }  # fmt: skip
