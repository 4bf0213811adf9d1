"""Messages are hints: after the commit that changed a row, whoever installed a publisher is told to look at it.

The publisher is `jobs.tasks.publish`; a row whose hint got lost is found by the sweeper.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

Publisher = Callable[[int], object]
_publishers: list[Publisher] = []


def install(publisher: Publisher) -> None:
    """Set the one publisher of this process."""
    _publishers[:] = [publisher]


def send(job_id: int) -> None:
    """Publish a hint for `job_id` after commit; a broker that is away raises nothing here."""

    def publish() -> None:  # a plain function: Django names it when it logs what it raised
        for publisher in _publishers:
            publisher(job_id)

    transaction.on_commit(publish, robust=True)
