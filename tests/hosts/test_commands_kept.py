"""`generations`, `keep_generation`, `restore` and `backup_root`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from hosts.enrol import add_source
from hosts.models import BackupRoot, Generation, GenerationStatus, Host
from hosts.root_admin import add_root
from hosts.store.root import MARKER
from jobs.models import Job
from tests.commands import herder, refused
from tests.factories import make_host

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.models import Source

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    return make_host("pi1")


@pytest.fixture
def source(host: Host) -> Source:
    """/srv/data with the good generations 1 and 2, and 3 being written."""
    source = add_source(host, "/srv/data")
    root = BackupRoot.objects.create(path="/nowhere")
    now = timezone.now()
    for sequence in (1, 2):
        Generation.objects.create(
            source=source, sequence=sequence, folder=f"{sequence}", root=root, status=GenerationStatus.GOOD,
            finished_at=now, files=1234, bytes=2048, changed_files=7,
        )  # fmt: skip
    Generation.objects.create(source=source, sequence=3, folder="3", root=root)
    return source


def restored(*words: str) -> dict[str, Any]:
    """Parameters of the restore that was requested."""
    ran = herder("restore", *words)
    assert ran.code == 0, ran
    job = Job.objects.select_related("host").get()
    assert job.host is not None
    return {**job.params, "host": job.host.name}


def test_nothing_kept_says_how_to_begin(host: Host) -> None:
    assert "Nothing is kept of pi1 yet: ./herder run_job backup --host pi1" in herder("generations", "pi1").out


def test_generations_are_listed_newest_first(source: Source) -> None:
    rows = herder("generations", "pi1").rows
    assert [row[:2] for row in rows[1:]] == [["/srv/data", "3"], ["/srv/data", "2"], ["/srv/data", "1"]]
    assert rows[2][-6:] == ["1,234", "2.0", "KiB", "7", "never", "good"]


def test_generations_of_a_removed_host_are_listed(source: Source) -> None:
    Host.objects.update(removed_at=timezone.now())
    assert len(herder("generations", "pi1", "--json").document) == 3


def test_a_problem_of_a_generation_is_shown(source: Source) -> None:
    source.generations.filter(sequence=2).update(verify_problem="a.txt differs", warnings=["a"], kept_at=timezone.now())
    assert "no                 good     a.txt differs; 1 warning; kept for ever" in herder("generations", "pi1").out


def test_a_generation_is_kept_and_released(source: Source) -> None:
    ran = herder("keep_generation", "pi1", "/srv/data", "1", "--note", "before the move")
    assert ran.out == "Generation 1 of pi1:/srv/data is kept for ever.\n"
    assert source.generations.get(sequence=1).kept_note == "before the move"
    assert "kept for ever: before the move" in herder("generations", "pi1").out
    herder("keep_generation", "pi1", "/srv/data", "1", "--release")
    assert source.generations.get(sequence=1).kept_at is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pi1", "/srv/data", "9"], "pi1:/srv/data has no good generation 9: there are 2, 1."),
        (["pi1", "/srv/data", "3"], "pi1:/srv/data has no good generation 3"),
        (["pi1", "/srv/data", "newest"], "A generation is a number or latest, not 'newest'."),
        (["pi1", "/home", "1"], "pi1 has no source /home: it has /srv/data."),
        (["pi9", "/home", "1"], "There is no host called pi9"),
    ],
)
def test_what_cannot_be_kept(words: list[str], sentence: str, source: Source) -> None:
    assert refused("keep_generation", *words).startswith(sentence)


def test_a_file_is_restored_to_where_it_was(source: Source) -> None:
    assert restored("pi1", "/srv/data/a/b.txt") == {
        "host": "pi1", "from_host": "", "source": "/srv/data", "sequence": "latest", "path": "a/b.txt", "to_path": "",
        "dry_run": False, "delete": False, "allow_system": False,
    }  # fmt: skip


def test_a_source_as_a_whole_has_no_path(source: Source) -> None:
    found = restored("pi1", "/srv/data/", "--generation", "1", "--dry-run", "--delete")
    assert (found["path"], found["sequence"]) == ("", "1")
    assert found["dry_run"]
    assert found["delete"]


def test_the_longest_source_holds_the_path(source: Source, host: Host) -> None:
    source.path = "/srv"
    source.save()
    other = add_source(make_host("pi2"), "/srv/data2")
    other.host = host
    other.save()
    Generation.objects.create(
        source=other, sequence=1, folder="1", root=BackupRoot.objects.get(), status="good", finished_at=timezone.now()
    )
    assert restored("pi1", "/srv/data2/x")["source"] == "/srv/data2"


def test_another_host_gets_the_job(source: Source) -> None:
    make_host("pi2")
    found = restored("pi1", "/srv/data", "--to", "pi2:/srv/back")
    assert (found["host"], found["from_host"], found["to_path"]) == ("pi2", "pi1", "/srv/back")


def test_what_was_kept_of_a_removed_host_goes_to_another(source: Source) -> None:
    Host.objects.update(removed_at=timezone.now())
    assert "removed" in herder("restore", "pi1", "/srv/data").err
    make_host("pi2")
    assert restored("pi1", "/srv/data", "--to", "pi2:")["host"] == "pi2"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["/etc"], "/etc lies in no source of pi1: it has /srv/data."),
        (["/srv/data2"], "/srv/data2 lies in no source of pi1"),
        (["srv"], "The path srv is not absolute"),
        (["/srv/data/../etc"], "The path /srv/data/../etc contains '..'"),
        (["/srv/data", "--generation", "7"], "pi1:/srv/data has no good generation 7"),
        (["/srv/data", "--to", "/usr/bin"], "/usr/bin belongs to the operating system"),
        (["/srv/data", "--to", "pi9:/srv"], "There is no host called pi9"),
        (["/srv/data", "--to", "srv"], "--to takes HOST:PATH or an absolute path, not 'srv'."),
        (["/srv/data", "--to", "pi1"], "--to takes HOST:PATH"),
        (["/srv/data/a", "--delete"], "Only a restore of a whole source may delete"),
    ],
)
def test_what_cannot_be_restored(words: list[str], sentence: str, source: Source) -> None:
    assert refused("restore", "pi1", *words).startswith(sentence)
    assert not Job.objects.exists()


def test_a_folder_of_the_system_is_written_only_when_that_is_said(source: Source) -> None:
    assert restored("pi1", "/srv/data", "--to", "/usr/share/x", "--allow-system")["allow_system"]


def test_a_restore_behind_a_backup_is_code_3(source: Source) -> None:
    assert herder("run_job", "backup", "--host", "pi1").code == 0
    assert herder("restore", "pi1", "/srv/data").code == 3


def test_no_root_is_said(db: None) -> None:
    assert "There is no backup root yet" in herder("backup_root").out


def test_a_root_is_probed_marked_and_becomes_the_default(tmp_path: Path, db: None) -> None:
    ran = herder("backup_root", "--add", str(tmp_path), "--json")
    (found,) = ran.document
    assert (ran.code, found["path"], found["usable"], found["is_default"]) == (0, str(tmp_path), True, True)
    row = BackupRoot.objects.get()
    assert row.capabilities["hard_links"]
    assert json.loads((tmp_path / MARKER).read_text())["root_id"] == row.marker.hex


def test_the_default_moves_only_when_asked(tmp_path: Path, db: None) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        add_root(tmp_path / name)
    assert BackupRoot.objects.get(is_default=True).path.endswith("/a")
    add_root(tmp_path / "b", default=True)
    assert BackupRoot.objects.get(is_default=True).path.endswith("/b")


def test_adding_a_root_again_changes_nothing(tmp_path: Path, db: None) -> None:
    first = add_root(tmp_path)
    again = add_root(tmp_path)
    assert (first.pk, first.marker) == (again.pk, again.marker)


def test_a_disk_that_is_not_known_any_more_keeps_its_marker(tmp_path: Path, db: None) -> None:
    marker = add_root(tmp_path).marker
    BackupRoot.objects.all().delete()
    assert add_root(tmp_path).marker == marker


def test_a_root_that_lost_its_marker_is_not_usable(tmp_path: Path, db: None) -> None:
    add_root(tmp_path)
    (tmp_path / MARKER).unlink()
    ran = herder("backup_root")
    assert ran.code == 1
    assert "The backup disk is not mounted" in ran.err


def test_a_folder_that_is_not_there_is_no_root(tmp_path: Path, db: None) -> None:
    ran = herder("backup_root", "--add", str(tmp_path / "no"), "--default")
    assert (ran.code, ran.out) == (1, "")
    assert "is not a folder: create it, or mount its disk first." in ran.err
    assert refused("backup_root", "--default") == "--default belongs to --add PATH."
