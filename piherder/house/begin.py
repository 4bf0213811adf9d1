"""`make install`, `make upgrade` and `make uninstall`, by the system's own python3: no package is there yet.

Readable by older Pythons, so that they can be told in words; writes nothing into the clone: it may be somebody else's.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]


def main() -> int:
    """`install|upgrade|uninstall [ARGS of the target]`."""
    sys.dont_write_bytecode = True
    # `piherder/__init__.py` loads Celery, which is not installed for this Python; the modules below need none of it.
    package = types.ModuleType("piherder")
    package.__path__ = [str(CLONE / "piherder")]
    sys.modules["piherder"] = package
    from piherder.house import prepare

    if reason := prepare.unsupported((sys.version_info[0], sys.version_info[1]), True, "x86_64", True):
        sys.exit(reason)
    from piherder.house import install, uninstall, upgrade

    targets = {"install": install.main, "upgrade": upgrade.main, "uninstall": uninstall.main}
    return targets[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    # A script's own folder must not be searched for modules: names there (`systemd`, `release`) would hide others.
    sys.path[0] = str(CLONE)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nInterrupted; start again to go on.")
