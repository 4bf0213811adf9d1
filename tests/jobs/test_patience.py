"""A database that is away for a moment fails no job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction

from jobs.models import Job
from jobs.patience import patiently
from jobs.registry import StopWork

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True)


def away(*errors: Exception) -> Callable[[], int]:
    """Work that meets these errors first."""
    left = list(errors)

    def work() -> int:
        if left:
            raise left.pop(0)
        return Job.objects.count()

    return work


def test_it_is_tried_again_over_a_new_connection() -> None:
    assert patiently(away(OperationalError("gone"), InterfaceError("closed"))) == 0


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server that ends a connection")
def test_a_connection_that_the_server_ended_is_replaced() -> None:
    with connection.cursor() as cursor, pytest.raises(OperationalError):
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert patiently(Job.objects.count) == 0


def test_patience_ends() -> None:
    with pytest.raises(OperationalError):
        patiently(away(OperationalError("gone")), patience=-1)


def test_other_errors_are_not_patience_s_matter() -> None:
    with pytest.raises(ValueError, match="odd"):
        patiently(away(ValueError("odd")))


def test_a_stop_is_heard_between_two_tries() -> None:
    def stop() -> None:
        raise StopWork("cancel")

    with pytest.raises(StopWork):
        patiently(away(*[OperationalError("gone")] * 9), stop)


def test_half_a_transaction_is_never_tried_again() -> None:
    with pytest.raises(OperationalError), transaction.atomic():
        patiently(away(OperationalError("gone")))
