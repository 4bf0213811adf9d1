"""`jobs`: what runs, waits and has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs import registry
from jobs.follow import waiting_reason
from jobs.management.door import SUCCEEDED, DoorCommand, add_json, host_ids
from jobs.management.show import as_json, first_line
from jobs.models import ACTIVE, Job
from jobs.registry import UnknownKind
from jobs.services import Refused
from jobs.spans import ago, took
from jobs.terminal import state, table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.terminal import Cell


MOST = 1_000_000  # rows that a list may be asked for


class Command(DoorCommand):
    """List jobs, newest first."""

    help = "List jobs, newest first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Filters."""
        parser.add_argument("--active", action="store_true", help="only those that have not ended")
        parser.add_argument("--host", metavar="NAME")
        parser.add_argument("--kind")
        parser.add_argument(
            "--limit", type=natural, metavar="N", default=30, help="how many at most (default 30; 0 = all)"
        )
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Print them."""
        jobs = Job.objects.select_related("host").order_by("-id")
        if options["active"]:
            jobs = jobs.filter(status__in=ACTIVE)
        if options["kind"]:
            jobs = jobs.filter(kind=known_kind(options["kind"]))
        if options["host"]:
            known = jobs.filter(host__name=options["host"]).exists()  # a removed host's jobs are still there
            jobs = jobs.filter(host__name=options["host"] if known else next(iter(host_ids([options["host"]]))))
        shown = list(jobs[: options["limit"] or None])
        if options["as_json"]:
            self.emit([as_json(job) for job in shown])
        elif shown:
            heads = ("job", "kind", "host", "state", "requested", "took", "")
            table(self.stdout, heads, [row(job) for job in shown], right=("job", "took"))
        else:
            self.stdout.write(nothing(options))
        return SUCCEEDED


def known_kind(kind: str) -> str:
    """`kind`, which is installed or has left jobs behind. Raises Refused in words."""
    try:
        registry.get(kind)
    except UnknownKind as unknown:
        if not Job.objects.filter(kind=kind).exists():
            raise Refused(str(unknown), "invalid") from None
    return kind


def nothing(options: dict[str, Any]) -> str:
    """What to say when no job is listed."""
    if options["host"] or options["kind"]:
        return "No job fits."
    return "No job is active." if options["active"] else "There are no jobs yet."


def natural(text: str) -> int:
    """A number of rows, 0 or more. Raises ValueError, which argparse puts into words."""
    value = int(text)
    if not 0 <= value <= MOST:
        raise ValueError
    return value


def row(job: Job) -> list[Cell]:
    """A job as cells of the list."""
    evidence = first_line(job.evidence) if not job.is_active else progress(job)
    return [str(job.pk), job.kind, job.where or "–", state(job), ago(job.created_at), took(job.duration), evidence]


def progress(job: Job) -> str:
    """How far an active job is, or what it waits for."""
    percent = job.percent
    amount = "" if percent is None else f"{percent} %"
    return ", ".join(word for word in (amount, job.progress_label or job.step) if word) or waiting_reason(job)
