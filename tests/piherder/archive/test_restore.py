"""An archive of this installation, brought back elsewhere by processes of their own."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import stat
import tarfile
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as live
from django.core.management import call_command
from django.db import connection
from django.db.models import Max

from hosts.adopt import adopt
from hosts.models import BackupRoot
from hosts.store.root import RootUnusable, check, create_marker
from jobs.models import Job
from piherder.archive import shelf, unfinished
from piherder.house.folder import only_one
from tests.factories import make_host
from tests.hosts.families.conftest import shelve
from tests.hosts.rows import make_source
from tests.piherder.archive.fresh import HOSTS, Elsewhere, archive_of, hold_of, key_file, own_id
from tests.piherder.archive.test_pack import forge, odd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.piherder.archive.conftest import Herder

SQLITE = connection.vendor == "sqlite"
ACTIVE = """
from jobs.models import EngineSettings, Job, Lane, WorkerNode
answer = [
    list(Job.objects.filter(status__in=("pending", "running")).values_list("pk", flat=True)),
    Lane.objects.count(), WorkerNode.objects.filter(dead_at=None).count(), EngineSettings.load().hold_reason,
    sorted(set(Job.objects.values_list("failure", flat=True))),
]
"""


def test_an_encrypted_archive_brings_everything_back_on_an_empty_machine(herd: Herder, elsewhere: Elsewhere) -> None:
    phrase = herd.encrypt()
    said = elsewhere.restore(archive_of(herd), "--passphrase-file", str(phrase))
    assert "The database is restored; 3 jobs that were active then ended." in said
    assert "nothing starts until ./herder release" in said
    assert elsewhere.ask(HOSTS) == ["PRIVATE", "sudo word", "AAAAkey"]
    reason = f"restored from {herd.archives()[0].path.name}"
    assert elsewhere.ask(ACTIVE) == [[], 0, 0, reason, ["", "expired", "worker_lost"]]
    key = elsewhere.data / "master.key"
    assert (key.read_text().split(), stat.S_IMODE(key.stat().st_mode)) == (list(live.PIHERDER_MASTER_KEYS), 0o600)
    assert own_id(elsewhere) not in {"", live.PIHERDER_INSTALL_ID}, "two machines are never taken for one"
    assert list(elsewhere.data.glob(f"{shelf.PARTIAL}*")) == []


def test_a_plain_archive_needs_the_key_that_was_kept(herd: Herder, elsewhere: Elsewhere) -> None:
    archive = archive_of(herd)
    refused = elsewhere.refused(archive)
    assert refused.startswith("This archive belongs to another master key (fingerprint")
    assert "--key" in elsewhere.refused(archive, "--key", str(key_file(herd, "w" * 10 + "rong" * 12)))
    elsewhere.restore(archive, "--key", str(key_file(herd)))
    assert elsewhere.ask(HOSTS)[0] == "PRIVATE"


def test_who_lost_the_key_gets_all_but_the_logins(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.restore(archive_of(herd), "--lost-key")
    assert elsewhere.ask("from hosts.models import HostKey; answer = HostKey.objects.count()") == 1


def test_a_key_in_the_environment_stands_above_files(herd: Herder, elsewhere: Elsewhere) -> None:
    herd.encrypt()
    archive, words = archive_of(herd), ("--passphrase-file", str(herd.data / "passphrase"))
    refused = elsewhere.refused(archive, *words, PIHERDER_MASTER_KEYS="other" * 10)
    assert "set PIHERDER_MASTER_KEYS to it" in refused
    said = elsewhere.restore(archive, *words, PIHERDER_MASTER_KEYS=" ".join(live.PIHERDER_MASTER_KEYS))
    assert "PIHERDER_MASTER_KEYS is set and stands above" in said
    assert not (elsewhere.data / "master.key").exists()


def test_a_dry_run_changes_nothing(herd: Herder, elsewhere: Elsewhere) -> None:
    phrase = herd.encrypt()
    before = sorted(path.name for path in elsewhere.data.iterdir())
    said = elsewhere.restore(archive_of(herd), "--passphrase-file", str(phrase), "--dry-run")
    assert "1 host, " in said
    assert "the master key is inside" in said
    assert said.endswith("The database is empty and would be filled.\nNothing was changed.\n")
    made = {"django.key", "install.id"}  # by the start of any command
    assert sorted({path.name for path in elsewhere.data.iterdir()} - made) == before


def test_an_old_installation_is_kept_aside_and_only_replaced_when_asked(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.herder("migrate", "-v0")
    elsewhere.ask("from django.contrib.auth.models import User; User.objects.create_user('old'); answer = 1")
    own = (elsewhere.data / "master.key").read_text()
    phrase, archive = herd.encrypt(), archive_of(herd)
    assert "add --yes" in elsewhere.refused(archive, "--passphrase-file", str(phrase))
    said = elsewhere.restore(archive, "--passphrase-file", str(phrase), "--yes")
    users = "from django.contrib.auth.models import User; answer = User.objects.filter(username='old').count()"
    assert elsewhere.ask(users) == 0
    (aside,) = (elsewhere.data / "herder-backups").glob("before-restore-*")
    assert f"What was in the database is kept in {aside}." in said
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    (key,) = elsewhere.data.glob("master.key.before-*")
    assert key.read_text() == own
    if SQLITE:
        with closing(sqlite3.connect(aside)) as old:
            assert old.execute("SELECT username FROM auth_user").fetchall() == [("old",)]


def test_the_same_archive_may_be_brought_back_again(herd: Herder, elsewhere: Elsewhere) -> None:
    words = ("--passphrase-file", str(herd.encrypt()), "--yes")
    archive = archive_of(herd)
    for _ in range(2):
        elsewhere.restore(archive, *words)
    assert elsewhere.ask(HOSTS)[0] == "PRIVATE"


def test_the_next_backup_goes_on_in_the_restored_folder(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.restore(archive_of(herd), "--key", str(key_file(herd)))
    assert shelf.owner(elsewhere.data / "herder-backups") == own_id(elsewhere)


def test_an_older_database_is_migrated(herd: Herder, elsewhere: Elsewhere) -> None:
    with before_sign_ins():
        archive = archive_of(herd)
    elsewhere.restore(archive, "--key", str(key_file(herd)))
    assert elsewhere.ask("from piherder.models import SignIn; answer = SignIn.objects.count()") == 0


@contextmanager
def before_sign_ins() -> Iterator[None]:
    """A database from before sign-ins were kept."""
    call_command("migrate", "piherder", "zero", verbosity=0)
    try:
        yield
    finally:
        call_command("migrate", "piherder", verbosity=0)


def test_generations_on_a_disk_are_attached_and_the_disk_is_ours(
    herd: Herder, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    here, away = (BackupRoot.objects.create(path=str(tmp_path / name), is_default=name == "a") for name in "ab")
    for row in (here, away):
        Path(row.path).mkdir()
        create_marker(Path(row.path), live.PIHERDER_INSTALL_ID, row.marker.hex)
    (tmp_path / "stuff").mkdir()
    source = make_source(make_host("pi2"))
    archive = archive_of(herd)
    made = shelve(source, here, tmp_path / "stuff")
    Path(away.path).rename(tmp_path / "unplugged")
    said = elsewhere.restore(archive, "--key", str(key_file(herd)))
    found = elsewhere.ask("from hosts.models import Generation; answer = [g.folder for g in Generation.objects.all()]")
    assert found == [made.folder]
    assert "When it is there: ./herder adopt_generations" in said
    assert check(Path(here.path), own_id(elsewhere), here.marker.hex).usable

    (tmp_path / "unplugged").rename(away.path)
    assert elsewhere.herder("adopt_generations").returncode == 0
    assert check(Path(away.path), own_id(elsewhere), away.marker.hex).usable
    with pytest.raises(RootUnusable, match="belongs to another installation"):
        adopt(away)


def test_logs_of_another_installation_are_not_shown_for_jobs_of_this_one(herd: Herder, elsewhere: Elsewhere) -> None:
    old = elsewhere.data / "job-logs" / "000000" / "1.log.gz"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"of another job 1")
    said = elsewhere.restore(archive_of(herd), "--key", str(key_file(herd)))
    assert "1 log of jobs that the archive does not know: kept in " in said
    assert not old.exists()
    (kept,) = (elsewhere.data / "job-logs").glob("before-*/000000/1.log.gz")
    assert kept.read_bytes() == b"of another job 1"


def test_logs_of_jobs_after_the_archive_are_not_shown_for_new_ones(herd: Herder, elsewhere: Elsewhere) -> None:
    (elsewhere.data / "install.id").write_text(live.PIHERDER_INSTALL_ID + "\n")
    archive = archive_of(herd)
    top = Job.objects.aggregate(top=Max("pk"))["top"]
    logs = [elsewhere.data / "job-logs" / "000000" / f"{number}.log.gz" for number in (top, top + 1)]
    logs[0].parent.mkdir(parents=True)
    for log in logs:
        log.write_bytes(b"log")
    elsewhere.restore(archive, "--key", str(key_file(herd)))
    assert [log.exists() for log in logs] == [True, False]


@pytest.mark.skipif(SQLITE, reason="a file has no rows of later tables")
def test_an_archive_comes_back_over_a_database_of_a_later_version(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.herder("migrate", "-v0")
    later = "c.cursor().execute('ALTER TABLE piherder_signin ADD job bigint REFERENCES jobs_job')"
    elsewhere.ask(f"from django.db import connection as c; {later}; answer = 1")
    with before_sign_ins(), connection.cursor() as cursor:
        cursor.execute("CREATE VIEW seen AS SELECT 1")
        archive = archive_of(herd)
        cursor.execute("DROP VIEW seen")
    said = elsewhere.restore(archive, "--key", str(key_file(herd)), "--yes")
    assert "What is in the archive and not PiHerder's is left out: view seen." in said
    assert elsewhere.ask(HOSTS)[0] == "PRIVATE"


def test_another_passphrase_is_refused(herd: Herder, elsewhere: Elsewhere) -> None:
    herd.encrypt()
    archive = archive_of(herd)
    other = herd.data / "other"
    other.write_text("battery staple\n")
    other.chmod(0o600)
    assert elsewhere.refused(archive, "--passphrase-file", str(other)) == "The passphrase does not open this archive."
    assert "name its passphrase with --passphrase-file" in elsewhere.refused(archive)
    other.chmod(0o644)
    assert "Others can read" in elsewhere.refused(archive, "--passphrase-file", str(other))


def is_untouched(elsewhere: Elsewhere) -> bool:
    """Whether a refused restore left nothing at all."""
    return {path.name for path in elsewhere.data.iterdir()} <= {"django.key", "install.id"}


def test_what_is_damaged_or_means_harm_is_refused_and_changes_nothing(
    herd: Herder, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    archive = archive_of(herd)
    key = ("--key", str(key_file(herd)))
    assert "manifest lacks" in elsewhere.refused(forge(tmp_path, archive, odd("../../evil")), *key)
    link = odd("site/install.id", tarfile.SYMTYPE, link="/etc/passwd")
    assert "no plain file" in elsewhere.refused(forge(tmp_path, archive, link), *key)
    data = archive.read_bytes()
    archive.write_bytes(data[: len(data) // 2])
    assert "damaged or incomplete" in elsewhere.refused(archive, *key)
    archive.write_bytes(
        data.replace(live.PIHERDER_INSTALL_ID.encode() + b"\n", b"x" * len(live.PIHERDER_INSTALL_ID) + b"\n")
    )
    assert "was changed since the archive was made" in elsewhere.refused(archive, *key)
    assert is_untouched(elsewhere)


def rewritten(archive: Path, tmp_path: Path, **changes: object) -> Path:
    """The archive with another manifest."""
    path = tmp_path / "rewritten.tar"
    with tarfile.open(archive) as old, tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as new:
        for info in old.getmembers():
            handle = old.extractfile(info)
            assert handle is not None
            text = handle.read()
            if info.name == "manifest.json":
                text = json.dumps({**json.loads(text), **changes}).encode()
                info.size = len(text)
            new.addfile(info, io.BytesIO(text))
    return path


def test_a_newer_version_is_refused(herd: Herder, elsewhere: Elsewhere, tmp_path: Path) -> None:
    archive = archive_of(herd)
    assert "made by PiHerder 99.0" in elsewhere.refused(rewritten(archive, tmp_path, piherder="99.0"))
    newer = rewritten(archive, tmp_path, migrations={"jobs": "9999_later"})
    assert "newer than this version of PiHerder (jobs 9999_later)" in elsewhere.refused(newer)


@pytest.mark.skipif(SQLITE, reason="makes a PostgreSQL dump")
def test_a_postgresql_dump_is_not_restored_into_sqlite(herd: Herder, elsewhere: Elsewhere) -> None:
    refused = Elsewhere(elsewhere.data, "").refused(archive_of(herd))
    assert "holds a PostgreSQL database and this installation uses SQLite" in refused
    assert "set DATABASE_URL to an empty PostgreSQL database" in refused


@pytest.mark.skipif(not SQLITE, reason="makes an archive of a SQLite file")
def test_a_sqlite_file_is_not_restored_into_postgresql(herd: Herder, elsewhere: Elsewhere) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"  # it is not even asked
    assert "unset DATABASE_URL" in Elsewhere(elsewhere.data, url).refused(archive_of(herd))


@pytest.mark.skipif(SQLITE, reason="a dump replaces only the tables that it holds")
def test_tables_that_the_dump_would_leave_are_refused(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.ask("from django.db import connection as c; c.cursor().execute('CREATE TABLE mine (x int)'); answer = 1")
    refused = elsewhere.refused(archive_of(herd), "--key", str(key_file(herd)), "--yes")
    assert "tables that the archive does not know (mine)" in refused


@pytest.mark.skipif(not SQLITE, reason="only a file is damaged so")
def test_a_damaged_database_can_be_replaced_and_is_kept_as_it_is(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.herder("migrate", "-v0")
    database = elsewhere.data / "db.sqlite3"
    with database.open("r+b") as handle:
        handle.seek(100)
        handle.write(b"\xff" * 100_000)
    damaged = database.read_bytes()
    said = elsewhere.restore(archive_of(herd), "--key", str(key_file(herd)), "--yes")
    (aside,) = (elsewhere.data / "herder-backups").glob("before-restore-*.damaged")
    assert str(aside) in said
    assert aside.read_bytes() == damaged
    assert elsewhere.ask(HOSTS)[0] == "PRIVATE"


@pytest.mark.skipif(not SQLITE, reason="a file has companions")
def test_what_the_old_database_kept_beside_it_does_not_reach_the_new_one(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.herder("migrate", "-v0")
    crashed = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA wal_autocheckpoint=0');"
        "c.execute('CREATE TABLE late (x)'); c.commit(); os._exit(9)"
    )
    elsewhere.run("-c", crashed, str(elsewhere.data / "db.sqlite3"))
    assert (elsewhere.data / "db.sqlite3-wal").stat().st_size
    elsewhere.restore(archive_of(herd), "--key", str(key_file(herd)), "--yes")
    with closing(sqlite3.connect(elsewhere.data / "db.sqlite3")) as found:
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert found.execute("SELECT count(*) FROM sqlite_master WHERE name = 'late'").fetchone() == (0,)
    (aside,) = (elsewhere.data / "herder-backups").glob("before-restore-*.sqlite3")
    with closing(sqlite3.connect(aside)) as old:
        assert old.execute("SELECT count(*) FROM sqlite_master WHERE name = 'late'").fetchone() == (1,)


def test_nothing_is_brought_back_under_a_running_stack(herd: Herder, elsewhere: Elsewhere) -> None:
    archive, key = archive_of(herd), ("--key", str(key_file(herd)))
    with only_one(elsewhere.data):
        refused = elsewhere.refused(archive, *key)
        assert refused.startswith(f"The herder is running: stop the stack on {elsewhere.data} first")
        elsewhere.restore(archive, *key, "--dry-run")


def test_a_restore_that_fails_leaves_what_was_there(herd: Herder, elsewhere: Elsewhere) -> None:
    elsewhere.herder("migrate", "-v0")
    before = {path: path.read_bytes() for path in elsewhere.data.glob("*.*") if path.suffix in {".key", ".id"}}
    make = "from hosts.models import Credential; answer = Credential.objects.create(name='mine').pk"
    elsewhere.ask(make if SQLITE else f"{make}\n{IN_THE_WAY}")
    with unfit(herd) as archive:
        elsewhere.refused(archive, "--key", str(key_file(herd)), "--yes")
    assert elsewhere.ask("from hosts.models import Credential; answer = Credential.objects.get().name") == "mine"
    assert {path: path.read_bytes() for path in before} == before
    assert not (elsewhere.data / unfinished.MARKER).exists()


IN_THE_WAY = "from django.db import connection as c; c.cursor().execute('CREATE VIEW v AS SELECT * FROM jobs_job')"


@contextmanager
def unfit(herder: Herder) -> Iterator[Path]:
    """An archive whose database cannot be migrated: a table is there that is still to be made."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'piherder'")
    try:
        yield archive_of(herder)
    finally:
        call_command("migrate", "piherder", fake=True, verbosity=0)


@pytest.mark.skipif(SQLITE, reason="a file gets its place only when it is ready")
def test_a_dump_that_cannot_be_migrated_is_on_hold(herd: Herder, elsewhere: Elsewhere) -> None:
    with unfit(herd) as archive:
        refused = elsewhere.refused(archive, "--key", str(key_file(herd)))
    assert refused.startswith("The database in the archive cannot be brought up to this version (relation")
    assert " was interrupted and nothing of the herder starts" in elsewhere.herder("status").stderr
    assert hold_of(elsewhere) == f"restored from {archive.name}"


def fill(path: Path) -> None:
    """Take all the room there is."""
    with suppress(OSError), path.open("wb", buffering=0) as handle:
        while handle.write(b"x" * 4096):
            pass


def test_a_full_disk_changes_nothing(herd: Herder, elsewhere: Elsewhere, full_disk: Path) -> None:
    small = Elsewhere(full_disk / "data", elsewhere.url)
    small.data.mkdir(mode=0o700)
    small.herder("help")  # makes the keys that any start makes
    fill(full_disk / "filler")
    before = {path.name: path.read_bytes() for path in small.data.iterdir()}
    assert small.refused(archive_of(herd), "--lost-key").startswith("There is no room left for")
    assert {path.name: path.read_bytes() for path in small.data.iterdir()} == before


def test_a_service_user_owns_what_root_brings_back(herd: Herder, elsewhere: Elsewhere) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(elsewhere.data, 65534, 65534)
    elsewhere.restore(archive_of(herd), "--key", str(key_file(herd)))
    made = [elsewhere.data / name for name in ("master.key", "install.id", "herder-backups")]
    made += [elsewhere.data / "db.sqlite3"] if SQLITE else []
    assert {path.stat().st_uid for path in made} == {65534}
