"""The Celery application: one app, JSON only; every setting stands in `settings.py` with its reason."""

from __future__ import annotations

from typing import Any

from celery import Celery, signals

from piherder.env import use_settings

use_settings()
app = Celery("piherder")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@signals.celeryd_init.connect
def add_node_step(**_: Any) -> None:
    """A worker registers itself; only a worker imports the bootstep."""
    from jobs.worker import NodeStep

    app.steps["worker"].add(NodeStep)
