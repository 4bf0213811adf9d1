"""The parts of a restore that a process of its own need not show."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as live
from django.db import DatabaseError, connection

from hosts.former import former_ids
from hosts.models import BackupRoot
from jobs import logs
from piherder.archive import keeper, shelf, site
from piherder.archive.errors import ArchiveError
from piherder.archive.keeper import Keeper
from piherder.archive.placing import replace_sqlite
from piherder.archive.restore import described, reattach, site_values
from piherder.archive.unpack import Unpacked
from piherder.management.commands import herder_restore
from tests.commands import command
from tests.piherder.archive.test_manifest import sample
from tests.terminal import types

if TYPE_CHECKING:
    from tests.piherder.archive.conftest import Herder

KEYS = tuple(f"key-{number}-{'x' * 40}" for number in range(3))


def holding(folder: Path, key: str = "", needs: tuple[str, ...] = KEYS[:1]) -> Unpacked:
    """An archive with these keys inside, sealed with those it needs."""
    files = {"site/install.id": folder / "id", "site/django.key": folder / "dj"}
    (folder / "id").write_text("archived-id\n")
    (folder / "dj").write_text("archived-secret\n")
    if key:
        files["site/master.key"] = folder / "key"
        (folder / "key").write_text(key + "\n")
    found = sample(master_key_fingerprints=site.fingerprints(needs))
    return Unpacked(found, files)


def test_the_key_inside_is_taken(herder: Herder, tmp_path: Path) -> None:
    found = site_values(holding(tmp_path, KEYS[0]), "", lost_key=False)
    assert found == {"django.key": "archived-secret", "master.key": KEYS[0]}


def test_a_key_that_was_named_stands_above_the_one_inside(herder: Herder, tmp_path: Path) -> None:
    both = f"{KEYS[1]}\n{KEYS[0]}"
    assert site_values(holding(tmp_path, KEYS[0]), both, lost_key=False)["master.key"] == both


def test_keys_that_are_here_already_stay(herder: Herder, tmp_path: Path) -> None:
    herder.settings.PIHERDER_MASTER_KEYS = [KEYS[2], KEYS[0]]
    assert "master.key" not in site_values(holding(tmp_path), "", lost_key=False)


def test_an_archive_of_a_rotation_needs_both_keys(herder: Herder, tmp_path: Path) -> None:
    unpacked = holding(tmp_path, needs=KEYS[:2])
    with pytest.raises(ArchiveError, match="another master key"):
        site_values(unpacked, KEYS[0], lost_key=False)
    assert site_values(unpacked, "\n".join(KEYS[:2]), lost_key=False)


def test_a_lost_key_is_followed_by_a_new_one_where_there_is_none(herder: Herder, tmp_path: Path) -> None:
    herder.settings.PIHERDER_MASTER_KEYS = []
    found = site_values(holding(tmp_path), "", lost_key=True)["master.key"]
    assert len(found) > 40
    herder.settings.PIHERDER_MASTER_KEYS = [KEYS[2]]
    assert "master.key" not in site_values(holding(tmp_path), "", lost_key=True)


def test_what_a_variable_says_is_not_written(herder: Herder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_SECRET_KEY", "mine")
    found = site_values(holding(tmp_path, KEYS[0]), "", lost_key=False)
    assert set(found) == {"master.key"}
    assert described(sample(), found)[-1] == "PIHERDER_SECRET_KEY is set and stands above what the archive holds."


def test_only_what_changes_is_announced(herder: Herder) -> None:
    (herder.data / "master.key").write_text("same\n")
    lines = described(sample(install_id=live.PIHERDER_INSTALL_ID), {"master.key": "same", "django.key": "new"})
    assert lines[0].startswith("The archive was made on 2030-01-01T00:00:00+00:00 by PiHerder 0.1.0 (abc): 2 hosts")
    assert [line.split()[0] for line in lines[2:]] == [str(herder.data / "django.key")]


def test_site_files_are_private_and_the_earlier_ones_stay_beside_them(herder: Herder) -> None:
    (herder.data / "master.key").write_text("before\n")
    said: list[str] = []
    shelf.enter(herder.folder, "before")
    Keeper(herder.folder, "now", said.append).place({"master.key": "after", "django.key": "new"}, "before")
    assert (herder.data / "master.key").read_text() == "after\n"
    assert (herder.data / "master.key.before-now").read_text() == "before\n"
    assert stat.S_IMODE((herder.data / "django.key").stat().st_mode) == 0o600
    assert (len(said), shelf.owner(herder.folder)) == (2, live.PIHERDER_INSTALL_ID)
    Keeper(herder.folder, "later", said.append).place({"master.key": "after"}, "before")
    assert len(said) == 2, "what is there already is not written again"


def test_who_it_was_restored_from_is_remembered(herder: Herder) -> None:
    shelf.enter(herder.folder, live.PIHERDER_INSTALL_ID)
    keeping = Keeper(herder.folder, "now", list[str]().append)
    keeping.place({}, live.PIHERDER_INSTALL_ID)
    assert former_ids() == frozenset()
    for each in ("first", "second", "first"):
        keeping.place({}, each)
    assert former_ids() == {"first", "second"}


def test_logs_of_jobs_that_the_archive_does_not_know_are_put_aside(herder: Herder) -> None:
    for job in (7, 8, 1009):
        logs.path_of(job).parent.mkdir(parents=True, exist_ok=True)
        logs.path_of(job).with_suffix(".log.gz").write_bytes(b"packed")
    logs.path_of(1010).write_text("plain\n")
    said: list[str] = []
    Keeper(herder.folder, "now", said.append).logs(7)
    aside = logs.path_of(8).parents[1] / "before-now"
    assert sorted(path.name for path in aside.glob("*/*")) == ["1009.log.gz", "1010.log", "8.log.gz"]
    assert logs.path_of(7).with_suffix(".log.gz").exists()
    assert said == [f"3 logs of jobs that the archive does not know: kept in {aside}."]
    Keeper(herder.folder, "later", said.append).logs(7)
    assert len(said) == 1
    assert list(logs.left_plain()) == []


def test_what_root_makes_belongs_to_the_owner_of_the_data(herder: Herder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(herder.data, 65534, 65534)
    site.put("install.id", "x", "now")
    assert (herder.data / "install.id").stat().st_uid == 65534


def database(path: Path, name: str) -> Path:
    """A SQLite file with one table."""
    with closing(sqlite3.connect(path)) as made:
        made.execute(f"CREATE TABLE {name} (x)")
        made.commit()
    return path


def test_a_file_takes_its_place_without_the_companions_of_the_old_one(herder: Herder, tmp_path: Path) -> None:
    new, old = database(tmp_path / "new", "new_one"), database(tmp_path / "old", "old_one")
    for ending in keeper.SIDE_FILES:
        Path(f"{old}{ending}").write_bytes(b"of the old one")
    replace_sqlite(new, old)
    assert sorted(path.name for path in tmp_path.glob("old*")) == ["old"]
    with closing(sqlite3.connect(old)) as found:
        assert found.execute("SELECT name FROM sqlite_master").fetchall() == [("new_one",)]


def test_a_damaged_database_counts_as_something(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged() -> list[str]:
        raise DatabaseError("malformed")

    monkeypatch.setattr(keeper, "table_names", damaged)
    assert keeper.holds_something()


def test_our_own_database_holds_something_and_is_left_connected(herder: Herder) -> None:
    assert "jobs_job" in keeper.table_names()
    assert BackupRoot.objects.count() == 0


def test_a_copy_of_the_database_is_kept_aside(herder: Herder) -> None:
    shelf.enter(herder.folder, "me")
    path = keeper.keep_aside(herder.folder, "now")
    assert path.name == f"before-restore-now.{'sqlite3' if connection.vendor == 'sqlite' else 'pgdump'}"
    assert (stat.S_IMODE(path.stat().st_mode), herder.leftovers()) == (0o600, [])
    assert shelf.prune(herder.folder, 1) == []
    assert path.exists()


def test_a_disk_that_is_away_is_told_and_the_others_are_looked_at(herder: Herder, tmp_path: Path) -> None:
    for name in ("a", "b"):
        BackupRoot.objects.create(path=str(tmp_path / name))
    lines = reattach()
    assert len(lines) == 2
    assert all(line.endswith("When it is there: ./herder adopt_generations") for line in lines)


def ask(answer: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command says to a person who answers so; "" when it goes on."""
    types(monkeypatch, answer)
    found, _, err = command("herder_restore")
    assert isinstance(found, herder_restore.Command)
    try:
        found._agree(yes=False)
    except Exception as refusal:
        assert "[y/N]" in err.getvalue()
        return str(refusal)
    return ""


@pytest.mark.parametrize("answer", ["y\n", "YES\n", " yes \n"])
def test_a_person_may_agree(herder: Herder, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(answer, monkeypatch) == ""


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yesterday\n"])
def test_anything_else_is_no(herder: Herder, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(answer, monkeypatch) == "Nothing was changed."


def test_a_passphrase_is_asked_for_at_a_terminal(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    types(monkeypatch, "")
    monkeypatch.setattr("getpass.getpass", lambda _prompt: "what I typed")
    found, _, _ = command("herder_restore")
    assert isinstance(found, herder_restore.Command)
    locked = herder.data / "locked"
    locked.write_bytes(b"\x8c\x0d\x04" + b"x" * 600)
    assert found._passphrase(locked, None) == b"what I typed"
    herder.encrypt("from the file")
    assert found._passphrase(locked, None) == b"from the file"
