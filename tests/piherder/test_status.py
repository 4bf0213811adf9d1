"""`status` and `first_start`."""

from __future__ import annotations

import re
import shutil
import threading
import time
from typing import TYPE_CHECKING

import pytest
import redis
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django_celery_beat.models import PeriodicTask

from hosts.models import BackupRoot, Host
from hosts.root_admin import add_root
from hosts.store.root import MARKER
from jobs import mutex, services
from jobs.models import BeatLease, Door, Job, WaitingOn, WorkerNode
from jobs.services import Asker
from piherder import env
from piherder.house import processes
from piherder.house.folder import CLONE, socket_folder
from piherder.house.servers import ping, redis_program
from piherder.management import state
from tests.commands import Ran, herder
from tests.factories import change, make_host, make_node
from tests.hosts.rows import make_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_django import Settings

pytestmark = pytest.mark.django_db(transaction=True)
ASKER = Asker(Door.COMMAND, name="ann")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Watch for a second only: the hearts of these tests beat fast."""
    monkeypatch.setattr(state, "watching_seconds", lambda: 1.0)
    mutex.client().flushdb()


@pytest.fixture
def alive(db: None, tmp_path: Path) -> Iterator[None]:
    """A worker and a beat whose counters move, and a backup root."""
    make_node("w1@pi", queues=["celery"])
    BeatLease.objects.create(pk=1, holder="0" * 32, name="pi")
    (tmp_path / "backups").mkdir()
    add_root(tmp_path / "backups")
    end = threading.Event()

    def beat() -> None:
        while not end.wait(0.1):
            WorkerNode.objects.filter(name="w1@pi").update(beats=F("beats") + 1)
            BeatLease.objects.filter(name="pi").update(counter=F("counter") + 1)
        connection.close()

    thread = threading.Thread(target=beat)
    thread.start()
    yield
    end.set()
    thread.join()


def look() -> Ran:
    """`status --json`."""
    return herder("status", "--json")


def test_all_is_well(alive: None) -> None:
    ran = herder("status")
    assert (ran.code, ran.err) == (0, "")
    for words in ("reachable", "w1@pi  0 of 2 slots busy, queues celery  beating", "pi  leading", "celery: 0", "ready"):
        assert words in ran.out


def test_it_says_what_kind_of_installation_this_is(alive: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIHERDER_CONTAINER", raising=False)
    assert f"form      clone {CLONE}, make run is not running" in herder("status").out
    assert look().document["installation"]["form"] == "clone"


def test_json_holds_every_part(alive: None) -> None:
    found = look().document
    assert found["well"]
    assert found["database"]["reachable"]
    assert (found["redis"]["policy"], found["redis"]["queues"]) == ("noeviction", {"celery": 0})
    assert [node["silent_for"] for node in found["nodes"]] == [0.0]
    assert found["backup_roots"][0]["free_bytes"] > 0


def test_a_node_whose_counter_stands_still_is_silent_whatever_its_clock_says(alive: None) -> None:
    make_node("w2@pi", queues=["celery"])
    ran = look()
    assert ran.code == 1
    assert [node["silent_for"] > 0 for node in ran.document["nodes"]] == [False, True]
    assert ran.document["problems"][0].startswith("The worker w2@pi has been silent for 1 s")


def test_a_silent_beat_is_told(alive: None) -> None:
    BeatLease.objects.update(name="other")
    assert "No beat is running, so no schedule fires" in look().document["problems"][0]


def test_nobody_at_all_is_told_without_watching(tmp_path: Path) -> None:
    add_root(tmp_path)
    began = time.monotonic()
    problems = look().document["problems"]
    assert time.monotonic() - began < 1
    assert [sentence.split(":")[0] for sentence in problems] == [
        "No worker is running", "No beat is running, so no schedule fires",
    ]  # fmt: skip


def test_a_redis_that_may_throw_keys_away_is_warned_of(alive: None) -> None:  # case H18
    mutex.client().config_set("maxmemory-policy", "allkeys-lru")
    try:
        (problem,) = look().document["problems"]
    finally:
        mutex.client().config_set("maxmemory-policy", "noeviction")
    assert problem.endswith("(maxmemory-policy allkeys-lru): set it to noeviction.")


def test_a_redis_that_is_away_is_one_sentence(alive: None, settings: Settings, tmp_path: Path) -> None:
    settings.PIHERDER_REDIS_URL = f"unix://{tmp_path / 'nobody.sock'}"
    found = look().document
    assert not found["redis"]["reachable"]
    assert [sentence.split(" (")[0] for sentence in found["problems"]] == ["Redis does not answer"]


def test_a_server_that_never_answers_is_given_up_on() -> None:
    never = threading.Event()

    def hang() -> None:
        never.wait(10)

    assert state.within(0.2, hang) == "no answer within 0.2 s"
    never.set()


def test_a_database_that_is_away_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OSError("connection refused")

    monkeypatch.setattr(state, "database_answers", away)
    ran = look()
    assert ran.code == 1
    assert not ran.document["database"]["reachable"]
    assert "cannot be used (connection refused)" in ran.document["problems"][0]


def test_depths_and_the_oldest_pending_are_shown(alive: None) -> None:
    host = make_host("pi1")
    first = services.request_job("host_facts", host.pk, asker=ASKER).job
    mutex.client().delete("celery")
    mutex.client().rpush("celery", "one", "two")
    found = look().document
    assert found["redis"]["queues"] == {"celery": 2}
    assert (found["jobs"]["pending"], found["jobs"]["oldest_pending"]["id"]) == (1, first.pk)


def test_who_waits_for_a_host_is_shown_with_the_next_probe(alive: None) -> None:
    job = services.request_job("host_facts", make_host("pi1").pk, asker=ASKER).job
    change(job, waiting_on=WaitingOn.HOST, waiting_why="pi1 is off.")
    assert f"job {job.pk} (host_facts on pi1): waiting on host (pi1 is off" in herder("status").out
    assert [each["id"] for each in look().document["waiting"]] == [job.pk]


def test_holds_and_pauses_are_shown(alive: None) -> None:
    services.hold("moving", asker=ASKER)
    host = make_host("pi1")
    herder("pause_host", host.name, "--reason", "new disk")
    out = herder("status").out
    assert "the herd is on hold by ann (moving): ./herder release" in out
    assert "pi1 is paused (new disk): ./herder pause_host pi1 --resume" in out


def test_a_backup_disk_that_is_not_mounted_needs_attention(alive: None, tmp_path: Path) -> None:
    (tmp_path / "backups" / MARKER).unlink()
    ran = herder("status")
    assert ran.code == 1
    assert "The backup disk is not mounted" in ran.err
    assert "not usable" in ran.out


def test_backups_that_stand_badly_need_attention_unless_the_herd_is_on_hold(alive: None) -> None:
    make_source(make_host("pi1"))
    ran = herder("status")
    late, own = ran.err.splitlines()
    assert (ran.code, late) == (1, "pi1 was never backed up: ./herder run_job backup --host pi1")
    assert own == "There is no archive of the herder itself: ./herder herder_backup makes one."
    services.hold("moving", asker=ASKER)
    assert look().document["problems"] == []


def test_first_start_makes_what_is_missing_once(settings: Settings, tmp_path: Path) -> None:
    settings.PIHERDER_BACKUPS = tmp_path / "deep" / "backups"
    ran = herder("first_start")
    assert ran.code == 0
    assert f"Backups go to {tmp_path}/deep/backups\n" in ran.out
    assert (tmp_path / "deep" / "backups").stat().st_mode & 0o777 == 0o700
    assert BackupRoot.objects.get().is_default
    assert set(PeriodicTask.objects.values_list("name", "task")) >= {
        ("Retention", "piherder.schedule"), ("Host facts", "piherder.schedule"),
        ("Verify backups", "piherder.schedule"), ("Tidy", "tidy"),
    }  # fmt: skip
    assert herder("first_start").out == ""


def test_first_start_overwrites_nothing(settings: Settings, tmp_path: Path) -> None:
    settings.PIHERDER_BACKUPS = tmp_path / "backups"
    herder("first_start")
    PeriodicTask.objects.filter(name="Retention").update(enabled=False)
    herder("first_start")
    assert not PeriodicTask.objects.get(name="Retention").enabled


def test_the_first_password_is_shown_once(settings: Settings, tmp_path: Path) -> None:
    settings.PIHERDER_BACKUPS = tmp_path / "backups"
    line = herder("first_start", "--admin").out.splitlines()[-1]
    password = line.split("password ")[1].split(" ")[0]
    assert User.objects.get(groups__name="admin").check_password(password)
    assert "password" not in herder("first_start", "--admin").out
    assert not Host.objects.exists()
    assert not Job.objects.exists()


@pytest.fixture
def sick_redis(tmp_path: Path) -> Iterator[str]:
    """Address of a Redis that answers and refuses to work: its snapshots fail, as on a full disk."""
    store, address = tmp_path / "store", socket_folder(tmp_path, "r.sock") / "r.sock"
    store.mkdir()
    argv = [redis_program(), "--port", "0", "--unixsocket", str(address), "--dir", str(store), "--save", "3600 1"]
    process = processes.spawn(argv, tmp_path / "redis.log", env.child_environment(), tmp_path)
    client = redis.Redis(unix_socket_path=str(address))
    try:
        assert processes.wait_until(lambda: ping(address), 20)
        shutil.rmtree(store)
        client.bgsave()
        assert processes.wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", 20)
        yield f"unix://{address}"
    finally:
        client.close()
        processes.end(process, grace=0)


def test_a_redis_that_answers_with_errors_is_no_redis_to_work_with(
    alive: None, settings: Settings, sick_redis: str
) -> None:
    settings.PIHERDER_REDIS_URL = sick_redis
    ran = look()
    assert (ran.code, ran.document["redis"]["reachable"]) == (1, False)
    (problem,) = [line for line in ran.document["problems"] if "Redis" in line]
    assert re.match(r"Redis answers with errors \(MISCONF (Redis|Valkey) is configured to save RDB snapshots", problem)
