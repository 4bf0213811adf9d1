"""Making an archive, step by step, with a job that is only played."""

from __future__ import annotations

import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as live
from django.db import connection

from jobs.models import Failure
from piherder.archive import dump as dumping
from piherder.archive import manifest, pack, shelf, site
from piherder.archive.errors import ArchiveError
from piherder.archive.make import BACKUP, RESTORE, make, workplace
from piherder.archive.unpack import Unpacked, database_file, unpack
from tests.piherder.archive.played import Played
from tests.piherder.archive.test_manifest import sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.piherder.archive.conftest import Herder


class TakenAway(Exception):
    """The job is no longer ours."""


@pytest.mark.parametrize("lost_at", ["dump the database", "pack", "read it back", "publish"])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_job_that_was_taken_away_publishes_nothing(herder: Herder, lost_at: str, encrypted: bool) -> None:
    if encrypted:
        herder.encrypt()

    def lose(name: str) -> None:
        if name == lost_at:
            raise TakenAway

    with pytest.raises(TakenAway):
        make(Played(lose), herder.folder, 3)
    assert (herder.archives(), herder.leftovers()) == ([], [])


def test_nothing_older_goes_before_the_new_one_is_there(herder: Herder) -> None:
    first = make(Played(), herder.folder, 3)

    def look(name: str) -> None:
        assert [each.path for each in herder.archives()] == [first.archive.path]
        if name == "publish":
            raise TakenAway

    with pytest.raises(TakenAway):
        make(Played(look), herder.folder, 1)
    assert [each.path for each in herder.archives()] == [first.archive.path]
    assert make(Played(), herder.folder, 1).removed == [first.archive.path.name]


def test_what_is_plain_lies_in_the_data_folder_for_its_owner_alone(herder: Herder) -> None:
    herder.encrypt()
    seen: list[tuple[str, int]] = []

    def look(name: str) -> None:
        if name == "pack":
            (place,) = herder.data.glob(f"{shelf.PARTIAL}*")
            seen.extend((path.name, stat.S_IMODE(path.stat().st_mode)) for path in (place, *place.glob("database.*")))

    make(Played(look), herder.folder, 3)
    assert seen[0][1] == 0o700
    assert seen[1] == (manifest.DUMPS[connection.vendor], 0o600)
    assert herder.leftovers() == []


def test_a_workplace_that_a_killed_run_left_goes_but_not_that_of_a_restore(herder: Herder) -> None:
    (herder.data / f"{shelf.PARTIAL}{BACKUP}old").mkdir()
    with workplace(herder.data, RESTORE) as other:
        make(Played(), herder.folder, 3)
        assert herder.leftovers() == [other.name]


def test_a_data_folder_that_cannot_be_written_is_told(herder: Herder, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"cannot be used \(No such file"), workplace(tmp_path / "gone", BACKUP):
        pytest.fail("there is no place")


def test_a_made_archive_unpacks_into_a_whole_database(herder: Herder, tmp_path: Path) -> None:
    made = make(Played(), herder.folder, 3)
    found = unpack(made.archive.path, None, tmp_path, lambda: None)
    assert found.manifest == made.manifest
    database = database_file(found, tmp_path, lambda: None)
    head = b"SQLite format 3" if connection.vendor == "sqlite" else b"PGDMP"
    assert database.read_bytes().startswith(head)
    assert found.text("site/django.key") == live.SECRET_KEY


def test_a_person_can_take_a_sqlite_database_out_by_hand(herder: Herder, tmp_path: Path) -> None:
    made = make(Played(), herder.folder, 3)
    subprocess.run(["tar", "-C", str(tmp_path), "-xf", str(made.archive.path)], check=True)
    if connection.vendor == "sqlite":
        subprocess.run(["gunzip", str(tmp_path / "database.sqlite3.gz")], check=True)
        assert (tmp_path / "database.sqlite3").stat().st_size == made.manifest.database.unpacked
    assert (tmp_path / "site" / "install.id").read_text().strip() == live.PIHERDER_INSTALL_ID


def test_a_database_of_another_size_than_said_is_refused(herder: Herder, tmp_path: Path) -> None:
    members = {"database.sqlite3.gz": tmp_path / "packed"}
    (tmp_path / "packed").write_bytes(b"no gzip")
    with pytest.raises(ArchiveError, match="damaged or incomplete"):
        database_file(Unpacked(sample(), members), tmp_path, lambda: None)


def test_a_dump_goes_to_a_new_file_only(herder: Herder, tmp_path: Path) -> None:
    (tmp_path / manifest.DUMPS[connection.vendor]).write_text("someone else's")
    with pytest.raises(ArchiveError, match="File exists"):
        dumping.dump(tmp_path, lambda: None)


def test_values_of_the_site_are_those_in_effect(herder: Herder) -> None:
    keys = site.master_keys()
    assert site.values(()).keys() == {"django.key", "install.id"}
    assert site.values(keys)["master.key"].split() == list(live.PIHERDER_MASTER_KEYS) == list(keys)


@pytest.mark.parametrize("folder", ["missing", "no clone"])
def test_without_a_clone_there_is_no_commit_and_no_version(herder: Herder, tmp_path: Path, folder: str) -> None:
    if folder == "no clone":
        (tmp_path / folder).mkdir()
    herder.settings.BASE_DIR = tmp_path / folder
    assert (site.commit(), site.version()) == ("", "0")


def test_a_clone_says_its_commit(herder: Herder, tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    herder.settings.BASE_DIR = tmp_path
    assert len(site.commit()) == 40


def test_where_the_key_is_found(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.key_place() == str(herder.data / "master.key")
    monkeypatch.setenv("PIHERDER_MASTER_KEYS", "x" * 40)
    assert site.key_place() == "PIHERDER_MASTER_KEYS"


def test_a_member_that_grows_while_it_is_packed_is_not_published(
    herder: Herder, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = pack.member_of

    def lie(content: pack.Content, name: str, tick: Callable[[], None]) -> manifest.Member:
        found = measure(content, name, tick)
        return manifest.Member(name, found.size + 4096, found.sha256)

    monkeypatch.setattr(pack, "member_of", lie)
    with pytest.raises(ArchiveError):
        make(Played(), herder.folder, 3)
    assert herder.archives() == []


def test_the_code_of_a_refusal_reaches_programs() -> None:
    assert ArchiveError("x").code == Failure.ERROR
    assert ArchiveError("x", Failure.REFUSED).code == Failure.REFUSED
