"""A restore that was interrupted: nothing starts, nothing fires, and the same command goes on."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import psycopg
import pytest

from piherder.archive import shelf, unfinished
from piherder.archive.unfinished import UnderWay, alone, mark, require
from piherder.env import BadEnvironment
from tests.piherder.archive.fresh import HOSTS, SQLITE, archive_of, hold_of, key_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.piherder.archive.conftest import Herder
    from tests.piherder.archive.fresh import Elsewhere

KILLED = """
import os, sys
sys.argv = ["manage.py", "herder_restore", *sys.argv[1:]]
os.umask(0o077)
import django
django.setup()
from django.core.management import execute_from_command_line
from piherder.archive import keeper, placing, site, unfinished
{change}
execute_from_command_line(sys.argv)
"""
KILL = "{place}.{name} = lambda *_, **__: os.kill(os.getpid(), 9)"
SQLITE_POINTS = ("keeper.Keeper.logs", "keeper.Keeper.place", "site.put", "placing.replace_sqlite")
POSTGRESQL_POINTS = (
    *("placing.swap_tables", "keeper.Keeper.logs", "keeper.Keeper.place", "site.put"),
    *("placing.bring_up", "placing.call_command", "placing.settle"),
)
POINTS = (*(SQLITE_POINTS if SQLITE else POSTGRESQL_POINTS), "unfinished.Mark.done")


def killed_at(point: str, elsewhere: Elsewhere, words: tuple[str, ...]) -> None:
    """A restore whose process is killed where it would do this."""
    place, _, name = point.rpartition(".")
    done = elsewhere.run("-c", KILLED.format(change=KILL.format(place=place, name=name)), *words)
    assert done.returncode == -9, (point, done.stdout, done.stderr)


def forget_workers(elsewhere: Elsewhere) -> None:
    """The dump's workers are dead: or each further try would watch for 13 s whether they beat."""
    with psycopg.connect(elsewhere.url) as session:
        session.execute("UPDATE jobs_workernode SET dead_at = now()")


def test_kill_9_at_each_point_starts_nothing_and_the_same_command_goes_on(herd: Herder, elsewhere: Elsewhere) -> None:
    archive = archive_of(herd)
    words = (str(archive), "--key", str(key_file(herd)), "--yes")
    for point in POINTS:
        killed_at(point, elsewhere, words)
        assert (elsewhere.data / unfinished.MARKER).read_text() == f"{archive}\n", point
        if not SQLITE and point != POINTS[0]:
            assert hold_of(elsewhere) == f"restored from {archive.name}", point
            forget_workers(elsewhere)
    assert elsewhere.herder("jobs").stderr.startswith(f"Bringing {archive} back was interrupted")
    assert list(elsewhere.data.glob(f"{shelf.PARTIAL}*"))
    elsewhere.restore(archive, *words[1:])
    assert list(elsewhere.data.glob(f"{shelf.PARTIAL}*")) == []
    assert not (elsewhere.data / unfinished.MARKER).exists()
    assert elsewhere.ask(HOSTS)[0] == "PRIVATE"


@pytest.mark.parametrize(
    "start",
    [
        ("manage.py", "status"), ("manage.py", "migrate"), ("-c", "import piherder.wsgi"),
        ("-m", "celery", "-A", "piherder", "worker"), ("-m", "celery", "-A", "piherder", "beat", "--pidfile="),
    ],
)  # fmt: skip
def test_every_start_is_refused_in_one_sentence(elsewhere: Elsewhere, start: tuple[str, ...]) -> None:
    elsewhere.herder("help")
    (elsewhere.data / unfinished.MARKER).write_text("/srv/herder.tar\n")
    done = elsewhere.run(*start)
    assert done.returncode in {1, 3}, done.stderr
    assert done.stderr == (
        "Bringing /srv/herder.tar back was interrupted and nothing of the herder starts before it is done: run "
        "`./herder herder_restore /srv/herder.tar` again, with the options that it had.\n"
    )


def test_a_marker_that_cannot_be_read_refuses_as_well(herder: Herder) -> None:
    require("status")
    unfinished.marker().write_bytes(b"\xff\n")
    with pytest.raises(BadEnvironment, match=r"`\./herder herder_restore ARCHIVE` again"):
        require("status")
    require("herder_restore")


def test_an_earlier_marker_outlives_a_try_that_changed_nothing(herder: Herder, tmp_path: Path) -> None:
    first = mark(tmp_path / "one.tar")
    assert stat.S_IMODE(unfinished.marker().stat().st_mode) & 0o077 == 0
    mark(tmp_path / "two.tar").undone()
    assert unfinished.marker().read_text() == f"{tmp_path}/two.tar\n"
    first.undone()
    assert not unfinished.marker().exists()


def test_the_services_user_can_read_why_it_may_not_start(herder: Herder, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(herder.data, 65534, 65534)
    mark(tmp_path / "one.tar")
    assert unfinished.marker().stat().st_uid == 65534


def test_two_restores_exclude_each_other(herd: Herder, elsewhere: Elsewhere) -> None:
    archive, key = archive_of(herd), ("--key", str(key_file(herd)))
    with alone(elsewhere.data, elsewhere.data / "."):
        done = elsewhere.herder("herder_restore", str(archive), *key, "--dry-run")
    assert done.returncode == 3
    assert done.stderr == f"Another restore works in {elsewhere.data}: let it end, then start again.\n"
    with alone(elsewhere.data), pytest.raises(UnderWay), alone(elsewhere.data):
        pass
    elsewhere.restore(archive, *key)


LATE = """
import subprocess
usual = keeper.Keeper.database
CHILD = "import django, sys; django.setup(); from django.db import connection as c; c.ensure_connection(); print(1)"
def database(self):
    usual(self)
    come = [sys.executable, "-c", CHILD + "; sys.stdout.flush(); sys.stdin.read()"]
    late.append(subprocess.Popen(come, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    late[0].stdout.readline()
late = []
keeper.Keeper.database = database
"""


def test_who_comes_after_the_first_look_is_seen_at_the_second(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.herder("migrate", "-v0")
    elsewhere.ask("from hosts.models import Credential; answer = Credential.objects.create(name='mine').pk")
    words = (str(archive_of(herd)), "--key", str(key_file(herd)), "--yes")
    done = elsewhere.run("-c", KILLED.format(change=LATE), *words)
    assert done.returncode == 3, (done.stdout, done.stderr)
    assert done.stderr.startswith("The herder is running: stop ")
    assert elsewhere.ask("from hosts.models import Credential; answer = Credential.objects.get().name") == "mine"
