"""A database that is away for a moment fails no job: short pieces of database work are tried again."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, TypeVar

from django.db import InterfaceError, OperationalError, connection

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")
PATIENCE = 600.0  # seconds


def patiently(
    work: Callable[[], Answer], check: Callable[[], None] = lambda: None, patience: float = PATIENCE
) -> Answer:
    """Answer of `work`, tried once a second while the database is away, for at most `patience` seconds.

    `work` must be one transaction or harmless to repeat. `check` is called between two tries and may raise.
    Raises the database's own error after that time.
    """
    give_up = time.monotonic() + patience
    while True:
        try:
            return work()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > give_up or connection.in_atomic_block:
                raise
            logger.warning("the database is away, trying again: %s", error)
        connection.close()
        check()
        time.sleep(1)
