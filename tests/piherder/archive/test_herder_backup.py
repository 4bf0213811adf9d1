"""The kind `herder_backup`: a job that leaves one whole archive, or the older ones as they were."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as live
from django.db import connection

from hosts.store.root import sync_folder
from hosts.vault import fingerprint_of
from jobs.models import Failure, Job, Status
from jobs.services import Refused
from piherder import env
from piherder.archive import shelf
from piherder.families.herder_backup import key_warning
from piherder.house.folder import CLONE
from tests.factories import make_host
from tests.hosts.families.conftest import cancel, carry_out, meanwhile, said
from tests.hosts.rsync.conftest import wait_until
from tests.piherder.archive.test_gpg import pids_naming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tests.piherder.archive.conftest import Herder

MEMBERS = {"sqlite": "database.sqlite3.gz", "postgresql": "database.pgdump"}


def manifest_of(path: Path) -> dict[str, Any]:
    """What the archive says of itself."""
    with tarfile.open(path) as tar:
        text = tar.extractfile("manifest.json")
        assert text is not None
        found: dict[str, Any] = json.loads(text.read())
    return found


def test_a_job_leaves_one_plain_archive_that_tar_can_list(herder: Herder) -> None:
    job = herder.back_up()
    assert (job.status, job.error) == (Status.SUCCEEDED, "")
    (archive,) = herder.archives()
    with tarfile.open(archive.path) as tar:
        names = tar.getnames()
    assert names == ["manifest.json", MEMBERS[connection.vendor], "site/django.key", "site/install.id"]
    assert stat.S_IMODE(archive.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(herder.folder.stat().st_mode) == 0o700
    assert herder.leftovers() == []


def test_the_manifest_says_what_it_was_made_from(herder: Herder) -> None:
    make_host()
    herder.back_up()
    found = manifest_of(herder.archives()[0].path)
    assert (found["format"], found["piherder"], found["install_id"]) == (1, "0.1.0", live.PIHERDER_INSTALL_ID)
    assert found["database"]["engine"] == connection.vendor
    assert found["migrations"]["jobs"].startswith("0001")
    assert (found["counts"]["hosts"], found["counts"]["jobs"]) == (1, 1)
    assert found["master_key_fingerprints"] == [fingerprint_of(key) for key in live.PIHERDER_MASTER_KEYS]
    assert live.PIHERDER_MASTER_KEYS[0] not in json.dumps(found)


def test_without_a_passphrase_the_key_stays_out_and_the_summary_says_what_that_means(herder: Herder) -> None:
    job = herder.back_up()
    (archive,) = herder.archives()
    assert live.PIHERDER_MASTER_KEYS[0].encode() not in archive.path.read_bytes()
    assert job.result["master_key"] == "not inside"
    assert f"without a copy of {herder.data}/master.key kept elsewhere, the stored logins cannot be read" in job.summary


def test_with_a_passphrase_the_key_is_inside_and_nothing_is_readable(herder: Herder) -> None:
    herder.encrypt("correct horse")
    job = herder.back_up()
    (archive,) = herder.archives()
    assert archive.path.name.endswith(".tar.gpg")
    assert (job.result["master_key"], job.result["encrypted"]) == ("inside", True)
    assert key_warning() not in job.summary
    content = archive.path.read_bytes()
    assert not any(text in content for text in (b"manifest.json", live.PIHERDER_MASTER_KEYS[0].encode(), b"PGDMP"))
    assert "correct horse" not in said(job) + job.summary + json.dumps(job.result)


def test_numbers_go_on_and_only_the_newest_stay(herder: Herder) -> None:
    herder.settings.PIHERDER_ARCHIVES_KEEP = 2
    first, *_ = [herder.back_up() for _ in range(2)]
    third = herder.back_up()
    assert [each.name.sequence for each in herder.archives()] == [3, 2]
    assert third.result["removed"] == [first.result["archive"]]
    assert third.summary.endswith("1 older one removed.")


def test_a_passphrase_that_others_can_read_makes_no_archive(herder: Herder) -> None:
    herder.encrypt().chmod(0o644)
    job = herder.back_up()
    assert (job.status, job.failure) == (Status.FAILED, Failure.REFUSED)
    assert job.error.startswith("Others can read the passphrase file")
    assert herder.archives() == []


def test_the_folder_of_another_installation_is_refused(herder: Herder) -> None:
    shelf.enter(herder.folder, "another")
    job = herder.back_up()
    assert (job.status, job.failure) == (Status.FAILED, Failure.REFUSED)
    assert "holds the archives of another installation" in job.error


def test_a_disk_that_is_no_longer_mounted_is_told_and_nothing_is_made_in_its_place(herder: Herder) -> None:
    herder.back_up()
    herder.folder.rename(herder.data / "elsewhere")
    job = herder.back_up()
    assert (job.status, job.failure) == (Status.FAILED, Failure.NOT_MOUNTED)
    assert not herder.folder.exists()
    assert herder.back_up(new_folder="yes").status == Status.SUCCEEDED


def test_one_at_a_time(herder: Herder) -> None:
    first = herder.request()
    assert herder.request().pk == first.pk
    with pytest.raises(Refused, match=f"job {first.pk}"):
        herder.request(new_folder="yes")


@pytest.fixture
def much(herder: Herder) -> Herder:
    """A database that cannot be packed into 70 MiB, nor in an instant."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE much (x TEXT)")
        filler = [(os.urandom(40_000).hex(),) for _ in range(1000)]
        cursor.executemany("INSERT INTO much VALUES (%s)", filler)
    return herder


@pytest.fixture(autouse=True)
def _no_table_stays(transactional_db: None) -> Iterator[None]:
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS much")


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_full_disk_leaves_the_older_ones_whole(much: Herder, full_disk: Path, encrypted: bool) -> None:
    if encrypted:
        much.encrypt()
    folder = full_disk / "archives"
    shelf.enter(folder, live.PIHERDER_INSTALL_ID)
    old = folder / "herder-20200101T000000Z-000001.tar"
    old.write_bytes(b"old")
    (full_disk / "filler").write_bytes(b"x" * (50 << 20))
    much.settings.PIHERDER_ARCHIVES = folder
    job = much.back_up()
    assert (job.status, job.failure) == (Status.FAILED, Failure.NO_SPACE), job.error
    assert job.error.startswith("There is no room left for")
    assert {path.name for path in folder.iterdir()} == {shelf.MARKER, old.name}
    assert old.read_bytes() == b"old"


def test_a_full_data_disk_is_told_too(much: Herder, full_disk: Path) -> None:
    (full_disk / "filler").write_bytes(b"x" * (50 << 20))
    much.settings.DATA = full_disk
    job = much.back_up()
    assert (job.status, job.failure) == (Status.FAILED, Failure.NO_SPACE), job.error
    assert [path.name for path in full_disk.iterdir()] == ["filler"]
    assert much.archives() == []


def test_cancel_leaves_nothing_behind(much: Herder) -> None:
    much.encrypt()
    job = much.request()
    with meanwhile(lambda: bool(much.leftovers()), lambda: cancel(job)):
        carry_out(job)
    assert job.status == Status.CANCELLED, job.error
    assert (much.archives(), much.leftovers(), pids_naming(much.data)) == ([], [], [])


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite is dumped by the job's own process")
def test_a_dump_that_breaks_half_way_is_told(much: Herder) -> None:
    older = much.back_up()

    def kill() -> None:
        for pid in pids_naming(much.data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    job = much.request()
    with meanwhile(lambda: any("database.pgdump" in name for name in dumping(much)), kill):
        carry_out(job)
    assert job.status == Status.FAILED
    assert job.error.startswith("pg_dump failed: ")
    assert [each.path.name for each in much.archives()] == [older.result["archive"]]


def dumping(herder: Herder) -> list[str]:
    """Command lines of dumps under way."""
    found = []
    for pid in pids_naming(herder.data):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_text())
    return found


SLOW = """
import os, sys, time
os.umask(0o077)
import django
django.setup()
from pathlib import Path
from django.conf import settings
from piherder.archive.make import make

class Work:
    def step(self, name): self.name = name
    def log(self, line): pass
    def check_cancel(self):
        if getattr(self, "name", "") == "pack" and list(settings.PIHERDER_ARCHIVES.glob(".partial*.gpg")):
            print("in the middle", flush=True)
            time.sleep(60)

make(Work(), settings.PIHERDER_ARCHIVES, 3)
"""


def test_kill_9_in_the_middle_leaves_the_older_ones_and_the_next_run_tidies_up(herder: Herder) -> None:
    older = herder.back_up()
    herder.encrypt()
    given = {
        "PIHERDER_DATA": str(herder.data), "PIHERDER_ARCHIVES": str(herder.folder), "DATABASE_URL": "",
        "PIHERDER_ARCHIVE_PASSPHRASE_FILE": str(herder.data / "passphrase"),
        "PIHERDER_INSTALL_ID": live.PIHERDER_INSTALL_ID,
    }  # fmt: skip
    environment = env.child_environment(**given)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=CLONE, env=environment, check=True)
    with subprocess.Popen([sys.executable, "-c", SLOW], cwd=CLONE, env=environment, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"in the middle\n"
        killed.kill()
    assert wait_until(lambda: not pids_naming(herder.data), 10), "gpg outlived the worker"
    assert len(herder.leftovers()) == 2
    assert [each.path.name for each in herder.archives()] == [older.result["archive"]]
    assert herder.back_up().status == Status.SUCCEEDED
    assert (herder.leftovers(), len(herder.archives())) == ([], 2)


def test_a_lost_claim_publishes_nothing(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    job = herder.request()

    def lose(folder: Path) -> None:
        Job.objects.filter(pk=job.pk).update(attempt="0" * 32)
        sync_folder(folder)

    monkeypatch.setattr(shelf, "sync_folder", lose)  # the marker is synced before the first step
    carry_out(job)
    assert (herder.archives(), herder.leftovers()) == ([], [])
