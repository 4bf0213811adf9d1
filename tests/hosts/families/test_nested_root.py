"""The herder in its own herd: the backup root is on the host that is backed up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts import nested
from hosts.models import BackupRoot, Source
from hosts.root_admin import add_root
from hosts.store.layout import TREE
from hosts.store.root import MARKER, close, closing_name
from jobs.models import Failure, Status
from tests.hosts.rsync.conftest import needs_root

from .test_backup_ways import open_folder, ordinary
from .test_restore import restore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Pi

__all__ = ["open_folder", "ordinary"]


@pytest.fixture
def odd_root(pi: Pi) -> Path:
    """The root lies below the source, in a folder with a name that a pattern would read otherwise."""
    folder = pi.data / "sub" / "ba*k [1]"
    folder.mkdir()
    (pi.data / "sub" / "back 1").write_text("not the root")
    root = folder / "root"
    Path(pi.root.path).rename(root)
    BackupRoot.objects.filter(pk=pi.root.pk).update(path=str(root))
    pi.root.refresh_from_db()
    return root


def kept(pi: Pi) -> list[str]:
    copy = pi.good()[-1].path / TREE
    return sorted(str(path.relative_to(copy)) for path in (copy / "sub").glob("ba*"))


def test_the_backup_root_is_no_part_of_a_backup(pi: Pi, odd_root: Path) -> None:
    first, second = pi.run("backup"), pi.run("backup")
    assert (first.status, second.status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert kept(pi) == ["sub/ba*k [1]", "sub/back 1"]
    assert not os.listdir(pi.good()[-1].path / TREE / "sub/ba*k [1]")


def test_the_host_is_asked_once_and_copied_once(pi: Pi) -> None:
    pi.run("backup")
    sessions = [line for line in pi.sshd.log.read_text().splitlines() if line.startswith("Starting session: ")]
    assert len(sessions) == 2


def test_it_is_said_in_the_summary_and_kept_as_a_warning(pi: Pi, odd_root: Path) -> None:
    job = pi.run("backup")
    words = f"The backup root lies in {pi.data} (sub/ba*k [1]/root) and was left out of its backup."
    assert job.summary.endswith(f"; 1 with warnings. {words}")
    assert pi.good()[0].warnings == [words]


def test_a_restore_that_deletes_spares_it(pi: Pi, odd_root: Path) -> None:
    pi.run("backup")
    job = restore(pi, delete=True)
    assert (job.error, job.result["deleted"]) == ("", 0)
    assert (odd_root / MARKER).exists()


def test_a_path_by_a_link_leads_there_too(pi: Pi, odd_root: Path) -> None:
    link = pi.data.parent / "link"
    link.symlink_to(pi.data)
    Source.objects.filter(pk=pi.source.pk).update(path=str(link))
    pi.run("backup")
    assert not os.listdir(pi.good()[-1].path / TREE / "sub/ba*k [1]")


def test_the_root_itself_is_no_source(pi: Pi) -> None:
    Source.objects.filter(pk=pi.source.pk).update(path=pi.root.path)
    job = pi.run("backup")
    words = f"{pi.root.path} is a backup root or lies in one: name another source."
    assert (job.failure, job.error) == (Failure.REFUSED, words)


def test_a_folder_in_the_root_is_no_source(pi: Pi) -> None:
    pi.keep()
    Source.objects.filter(pk=pi.source.pk).update(path=f"{pi.root.path}/pi1")
    assert "lies in one" in pi.run("backup").error


def test_every_root_below_a_source_is_left_out(pi: Pi, odd_root: Path) -> None:
    second = pi.data / "second"
    second.mkdir()
    add_root(second)
    (second / "file").write_text("a backup")
    job = pi.run("backup")
    assert f"The backup root lies in {pi.data} (second, sub/ba*k [1]/root)" in job.summary
    assert not (pi.good()[0].path / TREE / "second").exists()


@pytest.fixture
def volume(pi: Pi) -> Iterator[Path]:
    """The root as a container sees it: at its own path there, in a folder below the source on the machine."""
    folder = pi.data / "sub" / "volume"
    Path(pi.root.path).rename(folder)
    Path(pi.root.path).mkdir()
    subprocess.run(["mount", "--bind", str(folder), pi.root.path], check=True)
    yield folder
    subprocess.run(["umount", "-l", pi.root.path], check=True)


@needs_root
def test_a_root_that_has_another_path_on_its_machine_is_no_part_of_a_backup(pi: Pi, volume: Path) -> None:
    first, second = pi.run("backup"), pi.run("backup")
    assert (first.error, second.error) == ("", "")
    assert not os.listdir(pi.good()[-1].path / TREE / "sub/volume")
    assert (pi.good()[-1].path / TREE / "sub/file 3").exists()


@needs_root
@pytest.mark.parametrize("known", [True, False], ids=["the generation has the folder", "it is new"])
def test_a_restore_that_deletes_spares_it_there_too(pi: Pi, volume: Path, known: bool) -> None:
    pi.run("backup")
    kept = pi.good()[0].path
    if not known:
        (kept / TREE / "sub/volume").rmdir()
    (pi.data / "newer").write_text("newer")
    assert (restore(pi, delete=True).error, (pi.data / "newer").exists()) == ("", False)
    assert (kept.is_dir(), (volume / MARKER).exists()) == (True, True)


@needs_root
@pytest.mark.parametrize("place", ["", "/pi1"])
def test_a_folder_in_it_is_refused_there_too(pi: Pi, volume: Path, place: str) -> None:
    pi.run("backup")
    assert "belongs to a backup root" in restore(pi, to_path=f"{volume}{place}").error
    Source.objects.filter(pk=pi.source.pk).update(path=f"{volume}{place}")
    assert "is a backup root or lies in one" in pi.run("backup").error


def test_a_file_of_such_a_name_closes_no_other_folder(pi: Pi) -> None:
    (pi.data / "sub" / closing_name("0123")).write_text("- *\n")
    pi.run("backup")
    assert (pi.good()[0].path / TREE / "sub/file 3").exists()


@needs_root
def test_what_closes_a_root_can_be_read_by_whoever_reads_the_root(pi: Pi) -> None:
    old = os.umask(0o077)
    try:
        close(Path(pi.root.path), pi.root.marker.hex)
    finally:
        os.umask(old)
    assert (Path(pi.root.path) / closing_name(pi.root.marker.hex)).stat().st_mode & 0o777 == 0o644


def test_the_root_of_another_herder_is_a_folder_like_others(pi: Pi) -> None:
    other = pi.data / "root"
    other.mkdir()
    (other / MARKER).write_text('{"format": 1, "install_id": "another", "root_id": "0123"}')
    job = pi.run("backup")
    assert (job.status, "root" in job.summary) == (Status.SUCCEEDED, False)
    assert (pi.good()[0].path / TREE / "root" / MARKER).exists()


def test_a_marker_that_the_login_may_not_read_is_known_by_the_boot(ordinary: Pi, open_folder: Path) -> None:
    root = open_folder / "root"
    Path(ordinary.root.path).rename(root)
    (root / MARKER).chmod(0o600)
    root.chmod(0o755)
    BackupRoot.objects.filter(pk=ordinary.root.pk).update(path=str(root))
    job = ordinary.run("backup")
    assert f"The backup root lies in {open_folder} (root)" in job.summary


@pytest.mark.parametrize(
    ("source", "root", "below"),
    [
        ("/", "/srv/backups", "srv/backups"),
        ("/srv", "/srv/backups", "backups"),
        ("/srv/backups", "/srv/backups", "."),
        ("/srv/back", "/srv/backups", ""),
        ("/srv/backups/x", "/srv/backups", "."),
        ("/srv/backups-old", "/srv/backups", ""),
    ],
)
def test_where_the_root_lies(source: str, root: str, below: str) -> None:
    assert nested.relative(source, root) == below
