"""`python -m piherder.demo`: makes the folder, then becomes the walk in an environment of its own."""

from __future__ import annotations

import os
import signal
import sys

from piherder import env
from piherder.demo import place
from piherder.house import stack
from piherder.house.folder import Refused
from piherder.house.servers import PrivateRedis


def main(arguments: list[str]) -> int:
    """Does not return unless something is missing: the walk takes this process over, and with it the terminal.

    A fresh process, because settings are read once, and a caller's REDIS_URL, DATABASE_URL and PIHERDER_… are not ours.
    """
    options = place.parse(arguments, terminal=sys.stdout.isatty())
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the walk can end in order
    folder = place.make_folder()
    try:
        home = place.installation(folder)
        url = PrivateRedis(home.data / "redis").url
        words = [str(folder), str(home.port), *(word for word in ("stay", "keep") if getattr(options, word))]
        own = stack.environment(home, url, **CHANGES)
        given = {name: own[name] for name in ("PIHERDER_DATA", "REDIS_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")}
        command = [sys.executable, "-m", "piherder.demo.walk", *words]
        os.execve(sys.executable, command, {**place.isolated(own), **given, **CHANGES})
    except (Refused, env.BadEnvironment, OSError) as refusal:
        place.remove(folder)
        print(f"demo: {refusal}", file=sys.stderr)
        return 1


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CHANGES = {
    "CELERY_CONCURRENCY": str(place.SLOTS),
    "PIHERDER_DRAIN_GRACE_SEC": "0",  # Ctrl-C ends a copy that nobody needs at once
    "PIHERDER_CLOCK_TRUSTED": "1",
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
