"""What an upgrade must know of the engine, asked of the release that runs: its own code knows its own tables."""

from __future__ import annotations

import json


def report() -> dict[str, object]:
    """Whether the herd is on hold and by whom, and the jobs that a worker has in hand."""
    import django

    django.setup()
    from jobs.follow import title
    from jobs.models import ACTIVE, EngineSettings, Job

    switch = EngineSettings.load()
    # A row that was picked up and does not run yet is about to: the hold came too late for it.
    taken = Job.objects.filter(status__in=ACTIVE, attempt__isnull=False).select_related("host").order_by("id")
    return {
        "held": bool(switch.held),
        "held_by": switch.held_by,
        "reason": switch.hold_reason,
        "busy": [title(job) for job in taken],
    }


def main() -> int:
    """Prints the report as JSON."""
    print(json.dumps(report(), ensure_ascii=False))
    return 0
