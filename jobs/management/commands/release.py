"""`release`: end the hold of the herd."""

from __future__ import annotations

from typing import Any

from jobs.management.door import SUCCEEDED, DoorCommand
from jobs.services import release


class Command(DoorCommand):
    """Release the herd."""

    help = "Release the herd after a hold."

    def work(self, **options: Any) -> int:
        """Clear the switch and say what was waiting."""
        waiting = release()
        jobs = f" {waiting} job{'s were' if waiting > 1 else ' was'} waiting." if waiting else ""
        self.stdout.write(f"The herd is released: schedules fire again.{jobs}")
        return SUCCEEDED
