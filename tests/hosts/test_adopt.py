"""Generations on a backup disk and their rows are brought together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hosts.adopt import Adopted, Shelf, adopt
from hosts.enrol import add_source
from hosts.generations import GONE, newest_good
from hosts.models import BackupRoot, Generation, GenerationStatus, Host, Source
from hosts.store.layout import take_over
from hosts.store.lock import host_folder
from tests.factories import make_host
from tests.hosts.disk import START, info, lay, listing, make_root
from tests.hosts.rows import make_generation, make_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(tmp_path: Path) -> BackupRoot:
    return make_root(tmp_path / "root", is_default=True)


@pytest.fixture
def host() -> Host:
    return make_host("pi1")


def numbers(done: Adopted) -> tuple[int, int, int, int, int]:
    return done.attached, done.there, done.missing, done.unknown, done.passed_over


def sequences(source: Source) -> list[int]:
    return list(source.generations.order_by("sequence").values_list("sequence", flat=True))


# --- attached ----------------------------------------------------------------------------------------------------


def test_a_row_says_what_the_disk_says(root: BackupRoot, host: Host) -> None:
    path = lay(root.path, "pi1", "/srv/data", 7, changed=5, rsync_code=24, warnings=("lost a file",), fake_super=True)
    adopt(root)
    row = Generation.objects.get()
    assert (row.sequence, row.folder, row.path, row.status) == (7, path.name, path, GenerationStatus.GOOD)
    assert (row.files, row.bytes, row.changed_files, row.rsync_code) == (1, 3, 5, 24)
    assert (row.warnings, row.fake_super, row.job_id) == (["lost a file"], True, None)
    noted = info("pi1", "/srv/data", 7)
    assert (row.started_at, row.finished_at) == (noted.started, noted.finished)


def test_all_of_a_host_come_back_to_its_sources(root: BackupRoot, host: Host) -> None:
    source = add_source(host, "/srv/data")
    for number in (1, 2, 5):
        lay(root.path, "pi1", "/srv/data", number)
    done = adopt(root)
    assert numbers(done) == (3, 0, 0, 0, 0)
    assert done.lines == ["pi1 /srv/data: 3 generations attached."]
    assert sequences(source) == [1, 2, 5]
    newest = newest_good(source)
    assert newest is not None
    assert newest.sequence == 5


def test_a_source_that_is_not_there_is_made_and_switched_off(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/Odd Name")
    done = adopt(root)
    source = host.sources.get()
    assert (source.path, source.enabled, source.one_file_system) == ("/srv/Odd Name", False, False)
    assert source.generations.get().path.is_dir()
    assert (done.sources, done.shelves) == (1, (Shelf("pi1", "/srv/Odd Name", 1, 0, is_new=True),))
    assert done.lines == ["pi1 /srv/Odd Name: 1 generation attached; the source is new here and switched off."]


def test_the_source_of_a_whole_system_stays_on_its_filesystem(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/")
    adopt(root)
    assert host.sources.get().one_file_system is True


@pytest.mark.parametrize("path", ["/srv/caf%E9", "/srv/100%25", "/srv/grün", "/srv/a.b+c@d"])
def test_a_source_of_odd_bytes_is_found_again(root: BackupRoot, host: Host, path: str) -> None:
    lay(root.path, "pi1", path)
    adopt(root)
    assert host.sources.get().path == path
    assert host.sources.get().generations.get().path.is_dir()


def test_a_removed_host_keeps_its_generations(root: BackupRoot) -> None:
    gone = make_host("pi1", removed_at=START)
    lay(root.path, "pi1", "/srv/data")
    assert numbers(adopt(root)) == (1, 0, 0, 0, 0)
    assert Generation.objects.get().source.host == gone


def test_dates_move_forward_and_never_back(root: BackupRoot, host: Host) -> None:
    source = make_source(host)
    lay(root.path, "pi1", "/srv/data", 3)
    finished = info("pi1", "/srv/data", 3).finished
    adopt(root)
    source.refresh_from_db()
    host.refresh_from_db()
    assert (source.last_good_at, host.last_backup_at) == (finished, finished)
    lay(root.path, "pi1", "/srv/data", 2)
    adopt(root)
    source.refresh_from_db()
    assert source.last_good_at == finished


def test_what_is_attached_is_attached_once(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data", 1)
    adopt(root)
    before = list(Generation.objects.values())
    again = adopt(root)
    assert numbers(again) == (0, 1, 0, 0, 0)
    assert (again.lines, again.complete) == ([], True)
    assert list(Generation.objects.values()) == before
    lay(root.path, "pi1", "/srv/data", 2)
    assert numbers(adopt(root)) == (1, 1, 0, 0, 0)


def test_a_run_that_was_killed_after_its_rename_becomes_good(root: BackupRoot, host: Host) -> None:
    source = make_source(host)
    path = lay(root.path, "pi1", "/srv/data", 4)
    row = make_generation(source, 4, root.path, status=GenerationStatus.WRITING, finished_at=None)
    Generation.objects.filter(pk=row.pk).update(folder=path.name)
    assert numbers(adopt(root)) == (1, 0, 0, 0, 0)
    row.refresh_from_db()
    assert (row.status, row.files) == (GenerationStatus.GOOD, 1)


def test_one_that_is_being_removed_stays_so(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data", 1)
    adopt(root)
    Generation.objects.update(status=GenerationStatus.DELETING)
    assert numbers(adopt(root)) == (0, 1, 0, 0, 0)
    assert Generation.objects.get().status == GenerationStatus.DELETING


def test_a_copy_of_a_disk_stands_in_when_the_disk_is_gone(root: BackupRoot, host: Host, tmp_path: Path) -> None:
    lay(root.path, "pi1", "/srv/data", 1)
    adopt(root)
    second = make_root(tmp_path / "second")
    shutil.copytree(Path(root.path) / "pi1", tmp_path / "second" / "pi1")
    both = adopt(second)
    assert numbers(both) == (0, 0, 0, 0, 1)
    assert both.lines[0].endswith(f"was passed over: it is kept at {root.path} as well.")
    shutil.rmtree(root.path)
    assert numbers(adopt(second)) == (1, 0, 0, 0, 0)
    assert Generation.objects.get().root == second


def test_one_that_is_being_removed_is_not_looked_for_on_a_copy(root: BackupRoot, host: Host, tmp_path: Path) -> None:
    lay(root.path, "pi1", "/srv/data", 1)
    adopt(root)
    Generation.objects.update(status=GenerationStatus.DELETING)
    second = make_root(tmp_path / "second")
    (Path(root.path) / "pi1").rename(tmp_path / "second" / "pi1")
    adopt(second)
    assert Generation.objects.get().root == root


# --- nothing of the disk is touched ------------------------------------------------------------------------------


def test_unfinished_copies_are_left_alone(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data", 1)
    partial = take_over(Path(root.path) / "pi1" / "srv-data", "cut")
    (partial.tree / "half").write_text("half")
    before = listing(root.path)
    assert numbers(adopt(root)) == (1, 0, 0, 0, 0)
    assert listing(root.path) == before


def test_a_dry_run_writes_nothing_and_says_the_same(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data", 1)
    lay(root.path, "pi9", "/srv/data", 1)
    make_generation(make_source(host, "/etc"), 3, root.path)
    before = sorted(str(path) for path in Path(root.path).rglob("*"))
    tried = adopt(root, dry_run=True)
    assert sorted(str(path) for path in Path(root.path).rglob("*")) == before
    assert (Generation.objects.count(), host.sources.count()) == (1, 1)
    assert "pi1 /srv/data: 1 generation would be attached; the source is new here and switched off." in tried.lines
    assert Generation.objects.get().verify_problem == ""
    assert numbers(tried) == numbers(adopt(root))


def test_a_host_that_is_being_backed_up_is_passed_over_and_others_are_not(root: BackupRoot, host: Host) -> None:
    other = make_host("pi2")
    for name in ("pi1", "pi2"):
        lay(root.path, name, "/srv/data")
    with host_folder(Path(root.path), "pi1"):
        done = adopt(root)
    assert numbers(done) == (1, 0, 0, 0, 1)
    assert done.lines[0].startswith("pi1 was passed over: Another copy works in pi1's backup folder")
    assert Generation.objects.get().source.host == other
    assert numbers(adopt(root)) == (1, 1, 0, 0, 0)


# --- hosts that nobody knows -------------------------------------------------------------------------------------


def test_a_host_that_is_unknown_is_named_until_it_is_added(root: BackupRoot) -> None:
    kept = [lay(root.path, "pi9", "/srv/data", number) for number in (1, 2)] + [lay(root.path, "pi9", "/etc")]
    done = adopt(root)
    assert numbers(done) == (0, 0, 0, 3, 0)
    assert done.lines == ["Unknown host pi9: 3 generations; add the host with that name and run it again."]
    assert all(path.is_dir() for path in kept)
    make_host("pi9")
    assert numbers(adopt(root)) == (3, 0, 0, 0, 0)


# --- rows without a folder ---------------------------------------------------------------------------------------


def test_a_row_whose_folder_is_gone_says_so_until_it_is_back(root: BackupRoot, host: Host, tmp_path: Path) -> None:
    path = lay(root.path, "pi1", "/srv/data", 1)
    adopt(root)
    path.rename(tmp_path / "aside")
    done = adopt(root)
    assert numbers(done) == (0, 0, 1, 0, 0)
    assert done.lines == [f"pi1:/srv/data {path.name}: its folder is gone from the backup disk."]
    assert Generation.objects.get().verify_problem == GONE
    (tmp_path / "aside").rename(path)
    assert numbers(adopt(root)) == (1, 0, 0, 0, 0)
    assert Generation.objects.get().verify_problem == ""


def test_the_newest_good_one_is_one_that_is_there(root: BackupRoot, host: Host) -> None:
    kept = [lay(root.path, "pi1", "/srv/data", number) for number in (1, 2)]
    adopt(root)
    shutil.rmtree(kept[1])
    adopt(root)
    newest = newest_good(host.sources.get())
    assert newest is not None
    assert newest.sequence == 1


def test_rows_without_a_folder_go_when_a_person_says_so(root: BackupRoot, host: Host) -> None:
    kept = [lay(root.path, "pi1", "/srv/data", number) for number in (1, 2, 3)]
    adopt(root)
    Generation.objects.filter(sequence=2).update(kept_at=START)
    for path in kept[:2]:
        shutil.rmtree(path)
    assert numbers(adopt(root, forget=True, dry_run=True)) == (0, 1, 1, 0, 0)
    assert Generation.objects.count() == 3
    done = adopt(root, forget=True)
    assert sequences(host.sources.get()) == [2, 3]
    assert done.lines[0] == f"pi1:/srv/data {kept[0].name}: its folder is gone, and its row with it."


def test_rows_of_another_root_are_not_looked_for_here(root: BackupRoot, host: Host, tmp_path: Path) -> None:
    make_generation(make_source(host), 1, make_root(tmp_path / "other").path)
    assert numbers(adopt(root)) == (0, 0, 0, 0, 0)
    assert Generation.objects.get().verify_problem == ""
