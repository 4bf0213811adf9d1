"""`./herder adopt_generations`, and what retention makes of rows whose folder is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hosts.generations import on_disk
from hosts.models import BackupRoot, Generation
from hosts.store.root import MARKER
from tests.commands import herder, refused
from tests.factories import make_host
from tests.hosts.disk import give_away, lay, make_root
from tests.hosts.rows import make_generation, make_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(tmp_path: Path) -> BackupRoot:
    return make_root(tmp_path / "root", is_default=True)


def test_what_was_attached_is_a_table_and_a_sum(root: BackupRoot) -> None:
    make_host("pi1")
    for number in (1, 2):
        lay(root.path, "pi1", "/srv/data", number)
    ran = herder("adopt_generations")
    assert ran.code == 0
    assert ran.rows[0] == ["host", "source", "attached", "there", "before"]
    assert ran.rows[1] == ["pi1", "/srv/data", "2", "0", "new,", "off"]
    assert ran.out.splitlines()[-1] == f"{root.path}: 2 generations attached, 0 there before."
    assert ran.err == "pi1 /srv/data: 2 generations attached; the source is new here and switched off.\n"


def test_a_second_time_there_is_nothing_to_say(root: BackupRoot) -> None:
    make_host("pi1")
    lay(root.path, "pi1", "/srv/data")
    herder("adopt_generations")
    ran = herder("adopt_generations")
    assert (ran.code, ran.err) == (0, "")
    assert ran.rows[1] == ["pi1", "/srv/data", "0", "1"]


def test_a_dry_run_says_would(root: BackupRoot) -> None:
    make_host("pi1")
    lay(root.path, "pi1", "/srv/data")
    ran = herder("adopt_generations", "--dry-run")
    assert f"{root.path}: 1 generation would be attached, 0 there before." in ran.out
    assert Generation.objects.count() == 0


def test_what_a_person_must_look_at_ends_with_1(root: BackupRoot) -> None:
    lay(root.path, "pi9", "/srv/data")
    ran = herder("adopt_generations")
    assert ran.code == 1
    assert ran.err == "Unknown host pi9: 1 generation; add the host with that name and run it again.\n"
    assert (Path(root.path) / "pi9/srv-data").is_dir()


def test_a_disk_that_is_away_hinders_no_other(root: BackupRoot, tmp_path: Path) -> None:
    make_host("pi1")
    away = make_root(tmp_path / "away")
    (Path(away.path) / MARKER).unlink()
    lay(root.path, "pi1", "/srv/data")
    ran = herder("adopt_generations")
    assert (ran.code, Generation.objects.count()) == (1, 1)
    assert f"The backup disk is not mounted: {away.path} has no marker" in ran.err


def test_one_root_alone(root: BackupRoot, tmp_path: Path) -> None:
    make_host("pi1")
    second = make_root(tmp_path / "second")
    lay(root.path, "pi1", "/srv/data", 1)
    lay(second.path, "pi1", "/srv/data", 2)
    assert herder("adopt_generations", "--root", f"{second.path}/").code == 0
    assert Generation.objects.get().root == second


def test_a_root_that_nobody_knows_is_wrong_use(root: BackupRoot, tmp_path: Path) -> None:
    said = refused("adopt_generations", "--root", str(tmp_path))
    assert said == f"{tmp_path} is no backup root of this installation: ./herder backup_root --add {tmp_path}"


def test_a_foreign_disk_is_taken_over_by_name_only(tmp_path: Path) -> None:
    make_host("pi1")
    (tmp_path / "disk").mkdir()
    give_away(tmp_path / "disk")
    lay(tmp_path / "disk", "pi1", "/srv/data")
    said = refused("adopt_generations", "--from-other-installation")
    assert said == "--from-other-installation belongs to --root PATH."
    words = ("adopt_generations", "--root", str(tmp_path / "disk"), "--from-other-installation")
    assert herder(*words, "--dry-run").code == 0
    assert BackupRoot.objects.count() == 0
    assert herder(*words).code == 0
    assert Generation.objects.get().root.path == str(tmp_path / "disk")


def test_rows_whose_folder_is_gone_are_forgotten_when_told(root: BackupRoot) -> None:
    make_host("pi1")
    path = lay(root.path, "pi1", "/srv/data")
    herder("adopt_generations")
    shutil.rmtree(path)
    assert herder("adopt_generations").code == 1
    assert herder("adopt_generations", "--forget-missing").code == 0
    assert Generation.objects.count() == 0


def test_a_program_gets_one_document(root: BackupRoot) -> None:
    make_host("pi1")
    lay(root.path, "pi1", "/srv/data")
    [document] = herder("adopt_generations", "--json").document
    assert document.pop("lines") == ["pi1 /srv/data: 1 generation attached; the source is new here and switched off."]
    assert document == {
        "root": root.path, "attached": 1, "missing": 0, "unknown": 0, "there": 0, "sources": 1, "passed_over": 0,
        "complete": True,
    }  # fmt: skip


def test_what_is_gone_takes_no_place_in_the_rule(root: BackupRoot) -> None:
    source = make_source(make_host("pi1"))
    there = make_generation(source, 1, root.path)
    there.path.mkdir(parents=True)
    make_generation(source, 2, root.path)
    assert on_disk(source.generations.all()) == [there]


def test_of_a_disk_that_is_away_everything_counts(root: BackupRoot) -> None:
    source = make_source(make_host("pi1"))
    rows = [make_generation(source, number, root.path) for number in (1, 2)]
    (Path(root.path) / MARKER).unlink()
    assert sorted(row.pk for row in on_disk(source.generations.all())) == sorted(row.pk for row in rows)
