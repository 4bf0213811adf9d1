"""`cancel_job ID`: cancel a job; its end is not waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.management.commands.job import job_by_id
from jobs.management.door import SUCCEEDED, DoorCommand, me
from jobs.services import request_cancel

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(DoorCommand):
    """Cancel a job."""

    help = "Cancel a job. It ends when no process of it is left on either side."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The id."""
        parser.add_argument("id", type=int, metavar="ID")

    def work(self, **options: Any) -> int:
        """Ask, and say what happens now."""
        self.stdout.write(request_cancel(job_by_id(options["id"]), asker=me()))
        return SUCCEEDED
