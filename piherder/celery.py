"""The Celery application: one app, JSON only; every setting stands in `settings.py` with its reason."""

from __future__ import annotations

import sys
from typing import Any

from celery import Celery, signals

from piherder.env import BadEnvironment, use_settings

try:
    use_settings()
except BadEnvironment as refusal:  # this module is the first that any of our processes imports
    sys.exit(str(refusal))


@signals.import_modules.connect
def start(**_: Any) -> None:
    """A worker or a beat that may not start says why in one sentence; connected before Celery's own start of Django."""
    import django

    try:
        django.setup()
    except BadEnvironment as refusal:
        sys.exit(str(refusal))


app = Celery("piherder")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@signals.celeryd_init.connect
def add_node_step(**_: Any) -> None:
    """A worker registers itself; only a worker imports the bootstep."""
    from jobs.worker import NodeStep

    app.steps["worker"].add(NodeStep)
