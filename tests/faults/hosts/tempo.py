"""The fixed times of hosts and copies, shortened for tests that wait for them."""

from __future__ import annotations

from typing import Any

CONFIRM_SEC = 8.0


def shorten() -> None:
    """Seconds. Work that was told to end needs longer here than work without a host, so it has more patience too."""
    from hosts import copying, hooks
    from hosts.ssh_target import Timeouts
    from jobs import beat, beside

    changes: list[tuple[Any, str, Any]] = [
        (copying, "CONFIRM", CONFIRM_SEC),
        (hooks, "STOPPED_LIMIT", 5.0),
        (beside, "PATIENCE", 40.0),
        (beat, "MAKE_UP", 2.0),
    ]
    for module, name, value in changes:
        if not hasattr(module, name):
            raise AttributeError(f"{module.__name__} has no {name} any more.")
        setattr(module, name, value)
    # In the order of the fields; the login's own limits stay.
    Timeouts.__init__.__defaults__ = (4.0, 4.0, 6.0, 3.0, 1.0, 3, 1.0, CONFIRM_SEC)
