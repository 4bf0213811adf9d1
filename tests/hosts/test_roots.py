"""Which backup root a host uses, and whether it may be written now."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from django.conf import settings

from hosts import roots
from hosts.models import BackupRoot
from hosts.store.root import MARKER, create_marker
from jobs.models import Failure
from jobs.registry import JobFailed
from tests.factories import make_host

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.django_db


def make_root(folder: Path, **fields: bool) -> BackupRoot:
    folder.mkdir()
    row = BackupRoot.objects.create(path=str(folder), **fields)
    create_marker(folder, settings.PIHERDER_INSTALL_ID, row.marker.hex)
    return row


def test_a_host_uses_its_own_root_else_the_default_one(tmp_path: Path) -> None:
    default, own = make_root(tmp_path / "default", is_default=True), make_root(tmp_path / "own")
    assert roots.root_of(make_host()) == default
    assert roots.root_of(make_host(backup_root=own)) == own


def test_without_a_root_the_way_to_add_one_is_said(tmp_path: Path) -> None:
    make_root(tmp_path / "not the default one")
    with pytest.raises(JobFailed, match=r"There is no backup root: add one with `./herder backup_root --add"):
        roots.root_of(make_host())


def test_a_mounted_root_is_its_folder(tmp_path: Path) -> None:
    assert roots.mounted(make_root(tmp_path / "r")) == tmp_path / "r"


def test_a_folder_without_the_marker_is_not_mounted_and_stays_as_it_was(tmp_path: Path) -> None:
    root = make_root(tmp_path / "r")
    (tmp_path / "r" / MARKER).unlink()
    before = sorted(path.name for path in (tmp_path / "r").iterdir())
    with pytest.raises(JobFailed, match="not mounted") as failed:
        roots.mounted(root)
    assert failed.value.code == Failure.NOT_MOUNTED
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == before


def test_a_folder_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    root = make_root(tmp_path / "r")
    shutil.rmtree(tmp_path / "r")
    with pytest.raises(JobFailed) as failed:
        roots.mounted(root)
    assert (failed.value.code, (tmp_path / "r").exists()) == (Failure.NOT_MOUNTED, False)


def test_the_marker_of_another_disk_is_not_taken(tmp_path: Path) -> None:
    first, second = make_root(tmp_path / "a"), make_root(tmp_path / "b")
    shutil.copy(tmp_path / "b" / MARKER, tmp_path / "a" / MARKER)
    with pytest.raises(JobFailed):
        roots.mounted(first)
    assert roots.mounted(second) == tmp_path / "b"


@pytest.mark.parametrize(("name", "words"), [("LEAST_BYTES", "MiB free"), ("LEAST_INODES", "more files")])
def test_too_little_room_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    roots.require_space(tmp_path)
    monkeypatch.setattr(roots, name, 1 << 62)
    with pytest.raises(JobFailed, match=words) as failed:
        roots.require_space(tmp_path)
    assert failed.value.code == Failure.NO_SPACE
