"""The engine's fixed times, shortened for tests that wait for them; the test of the promised times runs without."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

SHORT: dict[str, str] = {
    "PIHERDER_BEAT_SEC": "1",
    "PIHERDER_SILENCE_SEC": "4",
    "PIHERDER_PROBE_SEC": "1",
    "PIHERDER_DRAIN_GRACE_SEC": "1",
    "PIHERDER_SERVER_LOCK_TTL": "6",
}


def shorten() -> None:
    """Set the constants that no variable sets. Seconds, and time between two hints of one job."""
    from jobs import beat, beside, monitor, waits

    changes: list[tuple[Any, str, Any]] = [
        (waits, "HINT_AGE", timedelta(seconds=2)),
        (monitor, "PERIOD", 1.0),
        (beside, "PATIENCE", 3.0),
        (beat, "RENEW", 1.0),
        (beat, "VALID", 3.0),
        (beat, "SILENT", 4.0),
    ]
    for module, name, value in changes:
        if not hasattr(module, name):
            raise AttributeError(f"{module.__name__} has no {name} any more.")
        setattr(module, name, value)
