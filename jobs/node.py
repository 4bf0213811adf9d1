"""Who this process is: the boot of the worker it belongs to, set in its main process and inherited by its pool."""

from __future__ import annotations

import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Me:
    """A worker's name and the id of this boot of it."""

    name: str
    boot: uuid.UUID


_me: list[Me] = []


def become(name: str) -> Me:
    """Take a name and a new boot id; done once, before the pool forks."""
    _me[:] = [Me(name, uuid.uuid4())]
    return _me[0]


def me() -> Me:
    """This process's worker. Raises RuntimeError outside a worker."""
    if not _me:
        raise RuntimeError("This process is no worker: jobs run only in a Celery worker of this installation.")
    return _me[0]
