"""What is sent to the broker, and what happens when it is away, silent, or full; the row is the truth throughout."""

from __future__ import annotations

import base64
import json
import socket
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone
from kombu import pools

from jobs import beside, mutex, tasks
from jobs.models import Status
from piherder.celery import app
from tests.factories import change, make_job
from tests.jobs.looks import again, ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosts.models import Host
    from jobs.models import Job
    from tests.jobs.conftest import CutRedis

BOUND = 14  # seconds: two attempts of five, and a busy machine


@pytest.fixture
def job(host: Host) -> Job:
    return make_job("work", host)


def messages(queue: str = "celery") -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in tasks.broker().lrange(queue, 0, -1)]


@contextmanager
def broker_at(address: str) -> Iterator[None]:
    """The app speaks to this broker and forgets the connections it had."""
    before = app.conf.broker_url
    try:
        _turn(address)
        yield
    finally:
        _turn(before)


def _turn(address: str) -> None:
    pools.reset()
    app.conf.update(broker_url=address)
    vars(app)["_pool"] = vars(app.amqp)["_producer_pool"] = None


@contextmanager
def silent_port() -> Iterator[int]:
    """The kernel accepts, and nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# --- the message -------------------------------------------------------------------------------------------------


def test_a_message_holds_the_id_of_the_row_and_nothing_of_it(job: Job) -> None:  # case G16
    change(job, params={"tag": "S3cr3t"})
    tasks.publish(job.pk)
    (message,) = messages()
    assert "S3cr3t" not in json.dumps(message)
    assert message["headers"]["id"] == str(job.celery_task_id)
    assert message["headers"]["task"] == "exclusive_job"


def test_the_worker_s_own_limit_stands_behind_the_engine_s(job: Job) -> None:
    change(job, time_limit=timedelta(minutes=15))
    tasks.publish(job.pk)
    (message,) = messages()
    patience = int(beside.PATIENCE + beside.CLEAN_UP_PATIENCE)  # what work gets that was asked to end
    assert message["headers"]["timelimit"] == [17 * 60 + patience, 16 * 60 + patience]


def test_a_message_goes_to_the_row_s_queue(job: Job) -> None:
    change(job, queue="nmap")
    tasks.publish(job.pk)
    assert tasks.queue_depths(["celery", "nmap"]) == {"celery": 0, "nmap": 1}


def test_each_hint_is_counted(job: Job) -> None:
    for _ in range(3):
        assert tasks.publish(job.pk)
    assert again(job).publishes == 3
    assert tasks.queue_depths(["celery"]) == {"celery": 3}


def test_a_job_that_is_not_there_is_not_published(db: None) -> None:
    assert tasks.publish(123_456) is False
    assert messages() == []


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_an_ended_job_is_not_published(job: Job, status: Status) -> None:
    change(job, status=status, finished_at=timezone.now())
    assert tasks.publish(job.pk) is False
    assert (messages(), again(job).publishes) == ([], 0)


# --- the broker --------------------------------------------------------------------------------------------------


def test_a_broker_that_is_away_costs_neither_time_nor_the_job(job: Job) -> None:  # case H06
    change(job, published_at=ago(hours=1))
    began = time.monotonic()
    with broker_at("redis+socket:///nonexistent/redis.sock"):
        assert tasks.publish(job.pk) is False
    assert time.monotonic() - began < BOUND
    assert (again(job).status, again(job).published_at) == (Status.PENDING, None)


def test_a_broker_that_accepts_and_never_answers_is_given_up(job: Job) -> None:  # case H05
    began = time.monotonic()
    with silent_port() as port, broker_at(f"redis://127.0.0.1:{port}/0"):
        assert tasks.publish(job.pk) is False
    assert time.monotonic() - began < BOUND
    assert again(job).published_at is None


def test_a_full_broker_refuses_and_the_job_stays(job: Job) -> None:  # case H18
    redis = tasks.broker()
    redis.config_set("maxmemory", "1")
    try:
        assert tasks.publish(job.pk) is False
    finally:
        redis.config_set("maxmemory", "0")
    assert (again(job).status, again(job).published_at) == (Status.PENDING, None)


def test_a_job_is_published_when_the_broker_is_back(job: Job) -> None:  # case H06
    with broker_at("redis+socket:///nonexistent/redis.sock"):
        tasks.publish(job.pk)
    assert tasks.publish(job.pk) is True
    assert (len(messages()), again(job).published_at is None) == (1, False)


def test_a_revoke_without_a_broker_raises_nothing(job: Job) -> None:
    with broker_at("redis+socket:///nonexistent/redis.sock"):
        tasks.revoke(job)
    assert again(job).status == Status.PENDING


def test_a_revoke_names_the_row_s_task(job: Job) -> None:
    listener = mutex.client().pubsub()  # type: ignore[no-untyped-call]  # redis has no type for it
    listener.psubscribe("*celery.pidbox")  # where every node listens
    assert listener.get_message(timeout=5)
    tasks.revoke(job)
    heard = [listener.get_message(timeout=2) for _ in range(2)]
    bodies = [base64.b64decode(json.loads(each["data"])["body"]).decode() for each in heard if each]
    assert any(str(job.celery_task_id) in body and "revoke" in body for body in bodies)
    listener.close()


# --- depths ------------------------------------------------------------------------------------------------------


def test_an_unknown_queue_is_empty() -> None:
    assert tasks.queue_depths(["nobody", "celery"]) == {"nobody": 0, "celery": 0}
    assert tasks.queue_depths([]) == {}


def test_depths_of_a_broker_whose_key_is_no_list_are_unknown() -> None:
    tasks.broker().set("celery", "junk")
    assert tasks.queue_depths(["celery"]) == {"celery": None}


def test_depths_are_known_again_after_an_outage(job: Job, redis_away: CutRedis) -> None:
    assert tasks.queue_depths(["celery"]) == {"celery": None}
    redis_away.back()
    assert tasks.queue_depths(["celery"]) == {"celery": 0}


# --- the chore ---------------------------------------------------------------------------------------------------


def test_the_nightly_chore_says_what_went(job: Job) -> None:
    change(job, status=Status.FAILED, finished_at=ago(days=3000))
    assert tasks.tidy() == "1 ended jobs removed."
    assert tasks.tidy() == "0 ended jobs removed."
