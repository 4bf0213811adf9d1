"""Raw Celery to compare with: an application of its own on the same broker and database, as its manual begins."""

from __future__ import annotations

import time

from celery import Celery

from piherder import env

QUEUE = "raw"
STARTS = "bench:starts"  # Redis list of the seconds from publish to start

env.use_settings()
# Whoever imports this goes on publishing to the application that was current before, which gets none of these tasks.
app = Celery("raw", broker=env.broker_url(), backend="django-db", set_as_current=False)
app.conf.update(
    task_default_queue=QUEUE,
    task_serializer="json",
    accept_content=["json"],
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="bench.noop", ignore_result=True, shared=False)
def noop() -> None:
    """Nothing, and nothing is kept."""


@app.task(name="bench.kept", shared=False)
def kept() -> str:
    """Nothing, and a row in the database says so, as the engine's does."""
    return "Nothing was done."


@app.task(name="bench.started", ignore_result=True, shared=False)
def started(published: float) -> None:
    """Says how long it took from the publisher's clock to here."""
    now = time.time()
    from jobs.tasks import broker  # not before Celery has set up Django

    broker().rpush(STARTS, now - published)
