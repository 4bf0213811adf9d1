"""`status` in words and as a document: every part that can be missing, silent, full or unknown."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.management.base import OutputWrapper
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from hosts.models import BackupRoot, Host
from hosts.root_admin import RootView
from jobs.models import BeatLease, EngineSettings, Job, Status, WaitingOn, WorkerNode
from piherder.management import state
from piherder.management.commands import status
from piherder.management.commands.first_start import make_schedules
from piherder.management.state import Node, Pulse, State
from tests.commands import herder
from tests.factories import make_host, make_job, make_node, running_on

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django import Settings

pytestmark = pytest.mark.django_db
GOOD: dict[str, Any] = {
    "database": {"kind": "SQLite", "place": "/db", "reachable": True},
    "redis": {"reachable": True, "policy": "noeviction", "queues": {"celery": 3}},
    "beat": {"holder": "pi", "silent_for": 0.0},
}
KEYS = {
    "well", "problems", "database", "redis", "nodes", "beat", "jobs", "waiting", "holds", "backup_roots",
    "herder_backup", "installation",
}  # fmt: skip


def rows(**parts: Any) -> dict[str, list[str]]:
    """The table, by the name of its part."""
    found: dict[str, list[str]] = {}
    last = ""
    for name, cell in status.rows(State(**{**GOOD, **parts})):
        last = str(name) or last
        found.setdefault(last, []).append(str(cell))
    return found


def node(**fields: Any) -> Node:
    base: dict[str, Any] = {
        "name": "w1@pi", "slots": 2, "queues": ["celery"], "busy": 1, "draining": False, "silent_for": 0.0,
    }  # fmt: skip
    return Node(**{**base, **fields})


# --- words


def test_servers_that_answer_are_reachable() -> None:
    found = rows()
    assert found["database"] == ["SQLite /db  reachable"]
    assert found["redis"] == ["reachable  noeviction"]
    assert found["queues"] == ["celery: 3"]


def test_servers_that_do_not_are_away() -> None:
    gone = {"kind": "PostgreSQL", "place": "db/herder", "reachable": False}
    found = rows(database=gone, redis={"reachable": False, "policy": None, "queues": {"celery": None}}, beat={})
    assert found["database"] == ["PostgreSQL db/herder  away"]
    assert (found["redis"], found["queues"]) == (["away"], ["celery: unknown"])
    assert "beat" not in found


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({}, "1 of 2 slots busy, queues celery  beating"),
        ({"draining": True}, "draining"),
        ({"silent_for": 12.3}, "silent for 12 s"),
        ({"silent_for": 12.3, "draining": True}, "silent for 12 s"),
        ({"queues": ["celery", "nmap"]}, "queues celery, nmap  beating"),
    ],
)
def test_a_worker_in_words(fields: dict[str, Any], end: str) -> None:
    assert rows(nodes=[node(**fields)])["workers"][0].endswith(end)


def test_no_worker_is_none() -> None:
    assert rows()["workers"] == ["none"]


@pytest.mark.parametrize(
    ("beat", "words"),
    [
        ({"holder": None, "silent_for": 0.0}, "none"),
        ({"holder": "pi", "silent_for": 0.0}, "pi  leading"),
        ({"holder": "pi", "silent_for": 7.0}, "pi  silent for 7 s"),
    ],
)
def test_beat_in_words(beat: dict[str, Any], words: str) -> None:
    assert rows(beat=beat)["beat"] == [words]


@pytest.mark.parametrize(
    ("root", "words"),
    [
        (RootView("/mnt", True, "", 5 << 30, 9, ()), "/mnt  default  5.0 GiB free  ready"),
        (RootView("/mnt", False, "It is gone.", None, None, ()), "/mnt  unknown free  not usable"),
    ],
)
def test_a_backup_root_in_words(root: RootView, words: str) -> None:
    assert rows(roots=[root])["backups"] == [words]


def test_a_part_is_named_once() -> None:
    shown = status.rows(State(**GOOD, nodes=[node(), node(name="w2@pi")]))
    assert [name for name, _ in shown].count("workers") == 1


def test_the_oldest_pending_job_says_since_when_it_waits() -> None:
    job = make_job("host_facts", make_host("pi1"))
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=7, seconds=5))
    job.refresh_from_db()
    found = rows(jobs={"running": 0, "pending": 1, "oldest_pending": job})["jobs"]
    assert found == [
        "0 running, 1 pending",
        f"oldest pending: job {job.pk} (host_facts on pi1), requested 7 min ago, queued",
    ]


# --- looks


def looked(look: Any) -> State:
    found = State()
    look(found)
    return found


def test_counts_tell_running_pending_and_waiting_apart() -> None:
    me = make_node()
    running_on(me, make_job("host_facts", make_host()))
    make_job("host_facts", make_host())
    waiting = make_job("host_facts", make_host())
    Job.objects.filter(pk=waiting.pk).update(waiting_on=WaitingOn.HOST)
    found = looked(state.look_at_jobs)
    assert (found.jobs["running"], found.jobs["pending"], [job.pk for job in found.waiting]) == (1, 2, [waiting.pk])


def test_ended_jobs_count_nowhere() -> None:
    make_job("host_facts", make_host())
    Job.objects.update(status=Status.FAILED, finished_at=timezone.now())
    assert looked(state.look_at_jobs).jobs == {"running": 0, "pending": 0, "oldest_pending": None}


def test_only_pauses_that_last_are_told() -> None:
    now = timezone.now()
    make_host("over", paused_at=now, paused_until=now - timedelta(seconds=1))
    make_host("gone", paused_at=now, removed_at=now)
    make_host("lasts", paused_at=now)
    assert looked(state.look_at_holds).holds == ["lasts is paused: ./herder pause_host lasts --resume"]


def test_a_hold_without_a_reason_names_who_holds() -> None:
    EngineSettings.objects.create(pk=1, held_at=timezone.now(), held_by="ann")
    assert looked(state.look_at_holds).holds == ["the herd is on hold by ann: ./herder release"]


def test_no_backup_root_needs_attention() -> None:
    assert looked(state.look_at_roots).problems == [
        "There is no backup root: add one with ./herder backup_root --add PATH --default."
    ]


def test_a_disk_that_hangs_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    BackupRoot.objects.create(path="/mnt/nfs")

    def stale(row: BackupRoot) -> RootView:
        raise OSError("Stale file handle")

    monkeypatch.setattr(state, "view", stale)
    (root,) = looked(state.look_at_roots).roots
    assert (root.problem, root.free_bytes) == ("/mnt/nfs: Stale file handle.", None)


def test_a_dead_worker_and_a_free_lease_are_not_watched() -> None:
    make_node(dead_at=timezone.now())
    BeatLease.objects.create(pk=1, holder=None, name="pi")
    assert Pulse().first == {}


def test_what_did_not_move_is_silent_for_as_long_as_it_was_watched() -> None:
    me = make_node()
    pulse = Pulse()
    pulse.watch(0.3)
    assert pulse.silent_for(me.boot) >= 0.3


def test_a_worker_that_moved_once_is_alive_whatever_its_counter_says_then() -> None:
    me = make_node(beats=500)
    pulse = Pulse()
    WorkerNode.objects.update(beats=1)
    pulse.watch(5.0)
    assert pulse.silent_for(me.boot) == 0.0


def test_a_herd_whose_only_worker_drains_has_none() -> None:
    make_node(drain_at=timezone.now())
    found = State()
    pulse = Pulse()
    pulse.moved = set(pulse.first)
    state.look_at_nodes(found, pulse)
    assert found.problems[0].startswith("No worker is running")


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_goes_away_in_the_middle_is_one_sentence(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
) -> None:
    def cut(found: State) -> None:
        raise error("connection reset\nby peer")

    monkeypatch.setattr(state, "look_at_jobs", cut)
    monkeypatch.setattr(state, "database_answers", lambda: None)  # over a connection that has no rows of this test
    settings.PIHERDER_REDIS_URL = f"unix://{tmp_path / 'nobody.sock'}"
    found = state.look(watch=0.0)
    assert found.problems[0] == ("The database cannot be used (connection reset): check that it runs, then try again.")


def test_a_document_has_every_part_also_when_nothing_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OSError("connection refused")

    monkeypatch.setattr(state, "database_answers", away)
    ran = herder("status", "--json")
    assert set(ran.document) == KEYS
    assert (ran.code, ran.err, ran.document["well"], ran.document["nodes"]) == (1, "", False, [])


def test_a_person_sees_that_heartbeats_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "look", lambda: State(**GOOD))
    monkeypatch.setattr(OutputWrapper, "isatty", lambda self: True)
    assert herder("status").code == 0


# --- first start


def test_the_usual_schedules_are_made_once_and_say_so() -> None:
    assert set(make_schedules().values()) == {True}
    assert set(make_schedules().values()) == {False}


def test_an_administrator_under_another_name_is_one(settings: Settings, tmp_path: Path) -> None:
    settings.PIHERDER_BACKUPS = tmp_path / "backups"
    User.objects.create_superuser("someone", password="x")
    assert "There is an administrator already.\n" in herder("first_start", "--admin").out
    assert not User.objects.filter(username="admin").exists()


def test_a_backup_folder_that_cannot_be_used_is_one_sentence(settings: Settings, tmp_path: Path) -> None:
    BackupRoot.objects.create(path="/elsewhere")
    settings.PIHERDER_BACKUPS = tmp_path / "never"
    assert herder("first_start").code == 0
    assert not (tmp_path / "never").exists()
    assert not Host.objects.exists()
