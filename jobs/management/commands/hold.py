"""`hold`: nothing new starts until `release`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.management.door import SUCCEEDED, DoorCommand, me
from jobs.services import active_jobs, hold

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.models import Job


class Command(DoorCommand):
    """Hold the herd."""

    help = "Hold the herd: no schedule fires and nothing new starts; running work ends by itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Why."""
        parser.add_argument("--reason", default="", help="shown at every door while the hold lasts")

    def work(self, **options: Any) -> int:
        """Set the switch and say what still runs."""
        hold(options["reason"], asker=me())
        self.stdout.write(f"The herd is on hold: nothing new starts until ./herder release.{standing(active_jobs())}")
        return SUCCEEDED


def standing(jobs: list[Job]) -> str:
    """What becomes of the jobs that have not ended: those that a worker has go on, the others wait."""
    going = sum(1 for job in jobs if job.attempt)
    waiting = len(jobs) - going
    words = f" {going} running job{'s end by themselves' if going > 1 else ' ends by itself'}." if going else ""
    if waiting:
        words += f" {waiting} pending job{'s wait' if waiting > 1 else ' waits'} for the release."
    return words
