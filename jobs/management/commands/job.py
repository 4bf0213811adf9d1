"""`job ID`: one job with its transitions, or its whole log."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from jobs import logs
from jobs.follow import title, waiting_reason
from jobs.management.door import SUCCEEDED, WRONG_USE, DoorCommand, add_json
from jobs.management.show import as_json, moment, sentence
from jobs.models import Job
from jobs.spans import stamp, took
from jobs.terminal import state, table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.terminal import Cell


def job_by_id(number: int) -> Job:
    """The job. Raises CommandError when there is none."""
    job = Job.objects.select_related("host").filter(pk=number).first()
    if job is None:
        raise CommandError(f"There is no job {number}: ./herder jobs lists them.", returncode=WRONG_USE)
    return job


class Command(DoorCommand):
    """Show one job: state, evidence, times and transitions."""

    help = "Show one job: state, evidence, times and transitions; or its whole log."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The id, and what to show."""
        parser.add_argument("id", type=int, metavar="ID")
        parser.add_argument("--log", action="store_true", help="print the whole log")
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Print it."""
        job = job_by_id(options["id"])
        if options["as_json"]:
            self.emit(self._document(job, with_log=options["log"]))
        elif options["log"]:
            self._log(job)
        else:
            self._page(job)
        return SUCCEEDED

    def _document(self, job: Job, *, with_log: bool) -> dict[str, Any]:
        events = list(job.events.values("at", "name", "text", "node"))
        log = {"log": [line.rstrip("\n") for line in logs.read(job.pk)]} if with_log else {}
        return {**as_json(job), "events": events, **log}

    def _log(self, job: Job) -> None:
        lines = logs.read(job.pk)
        first = next(lines, None)
        if first is None:
            self.hint(f"{sentence(title(job))} has no stored log.")
            return
        for line in itertools.chain((first,), lines):
            self.stdout.write(line, ending="")

    def _page(self, job: Job) -> None:
        facts: list[tuple[str, Cell]] = [
            ("job", f"{job.pk}  {job.kind}{f' on {job.where}' if job.where else ''}"),
            ("state", state(job)),
            ("waits for", waiting_reason(job)),
            ("evidence", job.evidence),
            ("step", f"{job.step} {job.progress_label}".strip() if job.is_active else ""),
            ("progress", "" if job.percent is None or not job.is_active else f"{job.percent} %"),
            ("requested", f"{moment(job.created_at)} by {job.requested_name or job.door}"),
            ("started", moment(job.started_at) if job.started_at else ""),
            ("finished", moment(job.finished_at) if job.finished_at else ""),
            ("took", took(job.duration)),
            ("worker", job.node),
            ("reason code", job.failure),
            ("log", f"{job.log_lines} lines (./herder job {job.pk} --log)" if job.log_lines else ""),
        ]
        table(self.stdout, ("", " "), [(name, value) for name, value in facts if value])
        events = [(stamp(event.at), event.name, event.text) for event in job.events.all()]
        self.stdout.write("")
        table(self.stdout, ("when", "event", ""), events)
