"""Points in the families of the hosts at which a herd's process can be killed or halted; see `tests.faults.points`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults.points import wrapped

if TYPE_CHECKING:
    from pathlib import Path

# point, module, function; before or after the call
POINTS = (
    ("rename:before", "backup", "publish", "before"),
    ("rename:after", "backup", "publish", "after"),
    ("verify", "backup_verify", "_prove", "before"),
)


def install(control: Path) -> None:
    """Set all points in this process."""
    from hosts.families import backup, backup_verify

    modules = {"backup": backup, "backup_verify": backup_verify}
    for point, module, name, when in POINTS:
        setattr(modules[module], name, wrapped(getattr(modules[module], name), control / point, when))
