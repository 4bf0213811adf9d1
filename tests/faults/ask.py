"""A door in a process of its own, which can be killed: `python -m tests.faults.ask KIND [PARAMS as JSON] [HOST]`."""

from __future__ import annotations

import json
import sys

import django


def main(kind: str, params: str = "{}", host: str = "") -> None:
    """Request the job and print its number."""
    django.setup()
    from jobs.models import Door
    from jobs.services import Asker, request_job

    asked = request_job(kind, int(host) if host else None, json.loads(params), asker=Asker(Door.COMMAND, name="ask"))
    print(asked.job.pk, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
