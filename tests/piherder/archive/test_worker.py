"""With a real worker on a real broker: it makes the archive, and nothing is brought back while it lives."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from piherder import env
from piherder.archive import shelf
from piherder.house import processes, stack
from piherder.house.folder import CLONE
from piherder.house.servers import PrivateRedis
from tests.hosts.rsync.conftest import wait_until
from tests.piherder.archive.fresh import Elsewhere, drop_database, new_database

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = (stack.program("celery"), "-A", "piherder", "worker", "--concurrency", "1", "-n", "w1@here", "-l", "INFO")


@pytest.fixture
def installation(tmp_path: Path, transactional_db: None) -> Iterator[Elsewhere]:
    """A data folder, a database and a Redis of its own, migrated."""
    url = "" if connection.vendor == "sqlite" else new_database()
    redis = PrivateRedis(tmp_path / "redis")
    redis.start()
    found = Elsewhere(tmp_path / "data", url)
    found.data.mkdir(mode=0o700)
    (found.data / "redis").mkdir()
    (found.data / "redis" / "address").write_text(redis.url)  # where any process of the installation looks
    found.herder("migrate", "-v0")
    found.herder("first_start")
    yield found
    redis.close()
    if url:
        drop_database(url)


@contextmanager
def worker(there: Elsewhere) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of that installation, beating."""
    variables = {"PIHERDER_DATA": str(there.data), "DATABASE_URL": there.url, "REDIS_URL": "", "PIHERDER_BEAT_SEC": "1"}
    log = there.data / "worker.log"
    process = processes.spawn(COMMAND, log, env.child_environment(**variables), CLONE)
    try:
        assert wait_until(lambda: "ready." in log.read_text(), 60), processes.tail(log)
        yield process
    finally:
        processes.end(process, grace=30)


def made(there: Elsewhere) -> list[Path]:
    """Its archives, newest first."""
    return [each.path for each in shelf.archives(there.data / "herder-backups")]


def test_a_worker_makes_it_and_the_command_waits(installation: Elsewhere) -> None:
    with worker(installation):
        done = installation.herder("herder_backup", "--wait", "--timeout", "90")
    assert done.returncode == 0, (done.stdout, done.stderr)
    (archive,) = made(installation)
    assert archive.name in done.stdout
    assert "The master key is not inside" in done.stdout


def test_nothing_is_brought_back_while_a_worker_lives_or_before_it_is_gone(installation: Elsewhere) -> None:
    with worker(installation) as process:
        installation.herder("herder_backup", "--wait", "--timeout", "90")
        (archive,) = made(installation)
        refused = installation.refused(archive, "--yes")
        assert refused.startswith("The herder is running: stop ")
        assert "w1@here" in refused
        process.send_signal(signal.SIGKILL)
        processes.end(process, grace=5)
    said = installation.restore(archive, "--yes")
    assert "The database is restored; 1 job that was active then ended." in said
    assert installation.herder("herder_backup").returncode == 1, "the herd is on hold"
    installation.herder("release")
    with worker(installation):
        assert installation.herder("herder_backup", "--wait", "--timeout", "90").returncode == 0
    assert len(made(installation)) == 2
