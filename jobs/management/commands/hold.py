"""`hold`: nothing new starts until `release`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.management.door import SUCCEEDED, DoorCommand, me
from jobs.services import active_jobs, hold

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(DoorCommand):
    """Hold the herd."""

    help = "Hold the herd: no schedule fires and nothing new starts; running work ends by itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Why."""
        parser.add_argument("--reason", default="", help="shown at every door while the hold lasts")

    def work(self, **options: Any) -> int:
        """Set the switch and say what still runs."""
        hold(options["reason"], asker=me())
        active = len(active_jobs())
        still = f" {active} active job{'s end by themselves' if active > 1 else ' ends by itself'}." if active else ""
        self.stdout.write(f"The herd is on hold: nothing new starts until ./herder release.{still}")
        return SUCCEEDED
