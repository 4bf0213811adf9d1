"""Restores to a real host by a real rsync."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hosts.copying import own_folder
from hosts.families import restore as families_restore
from hosts.models import Generation, GenerationStatus
from hosts.store.layout import MANIFEST, TREE
from hosts.store.paths import encode_name
from jobs.models import Failure, Status
from jobs.services import Refused
from tests.hosts.rsync.conftest import NOBODY, needs_root

from .conftest import contents, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import MakePi, Pi

ODD = b"caf\xe9\nline"


def restore(pi: Pi, **params: Any) -> Any:
    return pi.run("restore", source=pi.source.path, **params)


def access_list(path: Path) -> str:
    argv = ["getfacl", "-n", "-p", "--omit-header", str(path)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@needs_root
def test_all_comes_back_where_it_was_as_it_was(pi: Pi) -> None:  # cases C10 C12
    os.chown(pi.data / "-dash", NOBODY, 1234)
    (pi.data / "-dash").chmod(0o4750)
    subprocess.run(["setfacl", "-m", "u:65534:r", pi.data / "sub" / "file 5"], check=True)
    wanted, rights = contents(pi.data), access_list(pi.data / "sub" / "file 5")
    pi.run("backup")
    shutil.rmtree(pi.data)
    job = restore(pi)
    assert (job.status, job.error) == (Status.SUCCEEDED, "")
    assert job.summary.endswith(f"of generation 1 written to pi1:{pi.data}.")
    assert (contents(pi.data), access_list(pi.data / "sub" / "file 5")) == (wanted, rights)
    assert (pi.data / "hard").stat().st_ino == (pi.data / "sub" / "file 1").stat().st_ino
    assert (pi.data / "sparse").stat().st_blocks < 100
    assert os.getxattr(pi.data / "-dash", "user.note") == b"kept"


def test_one_file_comes_back_and_nothing_else_is_touched(pi: Pi) -> None:
    pi.keep()
    (pi.data / "sub" / "file 3").write_text("broken")
    (pi.data / "sub" / "file 4").write_text("edited since")
    job = restore(pi, path="sub/file 3")
    assert job.summary.startswith("1 file, ")
    assert (pi.data / "sub" / "file 3").read_text() == "content 3\n" * 10
    assert (pi.data / "sub" / "file 4").read_text() == "edited since"


def test_a_folder_goes_to_another_path_that_is_made(pi: Pi, tmp_path: Path) -> None:
    kept = pi.keep()
    job = restore(pi, path="sub", to_path=str(tmp_path / "new" / "place"))
    assert (job.error, job.result["files"]) == ("", 30)
    assert contents(tmp_path / "new" / "place" / "sub") == contents(kept.path / TREE / "sub")
    assert os.listdir(tmp_path / "new" / "place") == ["sub"]


def test_an_older_generation_can_be_named(pi: Pi) -> None:
    pi.keep()
    (pi.data / "sub" / "file 3").write_text("later")
    pi.keep()
    restore(pi, sequence="1", path="sub/file 3")
    assert (pi.data / "sub" / "file 3").read_text() == "content 3\n" * 10


def test_another_host_gets_the_files(off_pi: Pi, make_pi: MakePi, tmp_path: Path) -> None:
    kept, other = off_pi.keep(), make_pi("pi2")
    goal = tmp_path / "arrived"
    job = other.run("restore", from_host="pi1", source=off_pi.source.path, to_path=str(goal))
    assert job.summary.endswith(f"written to pi2:{goal}.")
    assert contents(goal) == contents(kept.path / TREE)


def test_nothing_is_deleted_unless_asked(pi: Pi) -> None:
    pi.keep()
    (pi.data / "newer").write_text("made since")
    restore(pi)
    assert (pi.data / "newer").exists()
    restore(pi, delete=True)
    assert not (pi.data / "newer").exists()


def test_a_dry_run_lists_and_writes_nothing(pi: Pi) -> None:
    pi.keep()
    (pi.data / "sub" / "file 3").unlink()
    before = contents(pi.data)
    job = restore(pi, dry_run=True)
    assert job.summary.startswith("Dry run: 1 file, 100 B of generation 1 would be written to pi1:")
    assert contents(pi.data) == before
    assert "sub/file 3" in said(job)


def test_names_of_any_bytes_come_back(pi: Pi) -> None:  # case C13
    pi.keep()
    for name in (ODD, b"-dash"):
        path = Path(os.fsdecode(bytes(pi.data) + b"/" + name))
        before = path.read_bytes()
        path.unlink()
        assert restore(pi, path=encode_name(name)).error == ""
        assert path.read_bytes() == before


ABSENT = [
    ({"path": "sub/file 99"}, "Generation 1 of {data} has no sub/file 99."),
    ({"sequence": "7"}, "pi1 has no good generation 7 of {data}."),
    ({"source": "/srv/none"}, "pi1 has no source /srv/none."),
    ({"from_host": "nobody"}, "nobody has no source {data}."),
]


def test_what_is_not_there_is_refused_in_words(pi: Pi) -> None:
    pi.keep()
    for params, words in ABSENT:
        job = pi.run("restore", **{"source": pi.source.path, **params})
        assert (job.failure, job.error) == (Failure.REFUSED, words.format(data=pi.data))


FORBIDDEN: list[tuple[dict[str, Any], str]] = [
    ({"to_path": "/"}, "/ belongs to the operating system"),
    ({"to_path": "/", "path": "usr/bin/env"}, "/usr/bin/env belongs to the operating system"),
    ({"to_path": "/usr/bin"}, "/usr/bin belongs to the operating system"),
    ({"source": "/boot/firmware"}, "/boot/firmware belongs to the operating system"),
    ({"to_path": "   "}, "The path is empty"),
    ({"to_path": "home"}, "is not absolute"),
    ({"to_path": "/srv/../etc"}, r"contains '\.\.'"),
    ({"path": "../etc/passwd"}, "path: ../etc/passwd is not a name inside a generation"),
    ({"path": "sub", "delete": True}, "Only a restore of a whole source may delete"),
    ({"to_path": "/", "delete": True, "allow_system": True}, "must name a folder below /"),
    ({"sequence": "first"}, "name a generation by its number"),
]


def test_places_that_must_not_be_written_are_refused_at_once(off_pi: Pi) -> None:  # case C16
    for params, words in FORBIDDEN:
        with pytest.raises(Refused, match=words) as refused:
            off_pi.request("restore", **{"source": off_pi.source.path, **params})
        assert refused.value.code == "invalid"


def test_a_folder_of_the_system_may_be_written_when_that_is_said(off_pi: Pi) -> None:
    job = off_pi.request("restore", source="/boot/firmware", allow_system=True)
    assert job.params["allow_system"] is True


def test_a_single_name_below_the_top_of_the_system_may_come_back(off_pi: Pi) -> None:
    assert off_pi.request("restore", source="/", path="home/pi/notes").params["path"] == "home/pi/notes"


def test_a_generation_that_is_gone_from_the_disk_is_named(pi: Pi) -> None:
    shutil.rmtree(pi.keep().path)
    error = restore(pi).error
    assert error.startswith("Generation 1 is not on the backup disk any more (")
    assert error.endswith("restore another one.")


@pytest.mark.parametrize("far", [True, False], ids=["only marked", "moved away"])
def test_a_generation_that_retention_takes_before_the_folder_is_held_is_named(
    pi: Pi, monkeypatch: pytest.MonkeyPatch, far: bool
) -> None:
    kept = pi.keep()

    @contextmanager
    def late(*args: Any, **options: Any) -> Iterator[Path]:
        if far:
            Generation.objects.filter(pk=kept.pk).update(status=GenerationStatus.DELETING)
        else:
            kept.path.rename(kept.path.with_name(".gone"))
        with own_folder(*args, **options) as folder:
            yield folder

    monkeypatch.setattr(families_restore, "own_folder", late)
    job = restore(pi)
    assert job.failure == Failure.REFUSED
    assert job.error.startswith("Generation 1 is not on the backup disk any more (")


def test_the_limit_of_the_host_is_that_of_a_restore(off_pi: Pi) -> None:
    off_pi.edit(backup_limit=timedelta(hours=9))
    assert off_pi.request("restore", source=off_pi.source.path).time_limit == timedelta(hours=9)


def test_an_unmounted_disk_is_named(pi: Pi) -> None:
    pi.keep()
    (Path(pi.root.path) / ".piherder-root.json").unlink()
    assert restore(pi).failure == Failure.NOT_MOUNTED


def test_a_damaged_manifest_keeps_nobody_from_a_file(pi: Pi) -> None:
    (pi.keep().path / MANIFEST).write_bytes(b"no manifest")
    (pi.data / "sub" / "file 3").unlink()
    assert restore(pi, path="sub/file 3").status == Status.SUCCEEDED
    assert "has no sub/nowhere" in restore(pi, path="sub/nowhere").error


@needs_root
def test_a_generation_of_a_herder_without_root_brings_owners_back(pi: Pi, tmp_path: Path) -> None:
    kept = pi.keep(fake_super=True)
    copy = kept.path / TREE / "sub" / "file 3"
    os.setxattr(copy, "user.rsync.%stat", b"100640 0,0 65534:1234")
    restore(pi, to_path=str(tmp_path / "back"))
    back = (tmp_path / "back" / "sub" / "file 3").stat()
    assert (back.st_uid, back.st_gid, back.st_mode & 0o7777) == (NOBODY, 1234, 0o640)
