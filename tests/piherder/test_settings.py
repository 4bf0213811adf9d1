"""What is in force on the running connection, app and pages; the constants alone would not tell."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from kombu.exceptions import ContentDisallowed
from kombu.serialization import loads

from jobs import tasks
from jobs.models import EngineSettings
from piherder.celery import app

if TYPE_CHECKING:
    from django.test import Client

sqlite_only = pytest.mark.skipif(connection.vendor != "sqlite", reason="a matter of SQLite")
postgresql_only = pytest.mark.skipif(connection.vendor != "postgresql", reason="a matter of PostgreSQL")


def asked(statement: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def locked_for_others() -> bool:
    """Whether another process could not begin to write now."""
    other = sqlite3.connect(str(connection.settings_dict["NAME"]), timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    else:
        other.execute("ROLLBACK")
        return False
    finally:
        other.close()


# --- the database ------------------------------------------------------------------------------------------------


@sqlite_only
@pytest.mark.django_db
def test_a_commit_of_sqlite_survives_a_power_cut() -> None:
    assert asked("PRAGMA synchronous") == 2  # FULL


@sqlite_only
@pytest.mark.django_db
def test_readers_and_a_writer_of_sqlite_do_not_wait_for_each_other() -> None:  # case H27
    assert asked("PRAGMA journal_mode") == "wal"
    assert asked("PRAGMA busy_timeout") == 20_000


@sqlite_only
@pytest.mark.django_db(transaction=True)
def test_a_transaction_of_sqlite_takes_the_write_lock_at_its_beginning() -> None:  # case H27
    connection.ensure_connection()
    assert not locked_for_others()
    with transaction.atomic():
        EngineSettings.objects.exists()
        assert locked_for_others()
    assert not locked_for_others()


@sqlite_only
@pytest.mark.django_db(transaction=True)
def test_a_look_outside_a_transaction_locks_nobody_out() -> None:  # case H27
    EngineSettings.objects.exists()
    assert not locked_for_others()


@sqlite_only
@pytest.mark.django_db
def test_sqlite_keeps_foreign_keys() -> None:
    assert asked("PRAGMA foreign_keys") == 1


@postgresql_only
@pytest.mark.django_db
def test_a_connection_to_a_dead_postgresql_ends_in_seconds() -> None:
    connection.ensure_connection()
    parameters = connection.connection.info.get_parameters()
    assert (parameters["connect_timeout"], parameters["tcp_user_timeout"]) == ("5", "10000")


@postgresql_only
@pytest.mark.django_db
def test_a_commit_of_postgresql_survives_a_power_cut() -> None:
    assert asked("SHOW synchronous_commit") == "on"


def test_a_connection_is_looked_at_before_it_is_used_again() -> None:
    assert connection.settings_dict["CONN_HEALTH_CHECKS"] is True


def channel_of(link: Any) -> Any:
    """The channel of Redis; kombu's types know the common part of all transports only."""
    return link.default_channel


# --- the broker --------------------------------------------------------------------------------------------------


def test_a_message_in_work_is_hidden_longer_than_the_longest_job() -> None:  # case H01
    with app.connection_for_read() as link:
        assert channel_of(link).visibility_timeout == 10_800
    assert app.conf.task_time_limit == 7200 < 10_800


def test_a_silent_broker_is_noticed_in_seconds() -> None:
    with app.connection_for_write() as link:
        options = channel_of(link).connection.client.transport_options
    assert (options["socket_timeout"], options["socket_connect_timeout"], options["max_retries"]) == (5, 5, 1)


def test_a_slot_reserves_nothing_beyond_what_it_runs() -> None:  # case H17
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.worker_disable_prefetch is True


@pytest.mark.parametrize("name", sorted(set(tasks.TASKS) - tasks.EARLY_ACK))
def test_a_task_is_acknowledged_when_it_ended(name: str) -> None:
    assert app.tasks[name].acks_late is True
    assert app.tasks[name].reject_on_worker_lost in (None, False)


@pytest.mark.parametrize("name", sorted(tasks.EARLY_ACK))
def test_work_that_must_never_come_twice_is_acknowledged_first(name: str) -> None:
    assert app.tasks[name].acks_late is False


@pytest.mark.parametrize("name", tasks.TASKS)
def test_no_result_of_a_job_is_stored_and_nothing_is_retried(name: str) -> None:
    assert app.tasks[name].ignore_result is True
    assert not getattr(app.tasks[name], "autoretry_for", ())


def test_the_chore_of_beat_keeps_its_result() -> None:
    assert app.tasks["tidy"].ignore_result is False


def test_a_pickled_message_is_not_opened() -> None:
    with pytest.raises(ContentDisallowed):
        loads(b"\x80\x04N.", "application/x-python-serialize", "binary", accept=app.conf.accept_content)


def test_the_soft_limit_comes_a_minute_before_the_hard_one() -> None:
    assert app.conf.task_time_limit - app.conf.task_soft_time_limit == 60


def test_a_lost_connection_to_the_broker_ends_no_running_work() -> None:
    assert app.conf.worker_cancel_long_running_tasks_on_connection_loss is False


def test_chores_and_schedules_keep_one_zone() -> None:
    assert str(app.conf.timezone) == settings.TIME_ZONE
    assert app.conf.enable_utc is True
    assert app.conf.result_expires == timedelta(days=7)


# --- the pages ---------------------------------------------------------------------------------------------------


def test_no_page_can_be_framed_or_guessed_at(client: Client, db: None) -> None:
    answer = client.get("/login/", follow=True)
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"


def test_a_foreign_name_of_the_server_is_refused(client: Client) -> None:
    assert client.get("/login/", headers={"host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000"])
def test_loopback_has_three_names(client: Client, db: None, host: str) -> None:
    assert client.get("/login/", headers={"host": host}).status_code != 400
