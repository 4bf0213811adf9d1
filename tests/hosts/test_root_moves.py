"""A backup disk that comes back at another mount point, or twice, or where another was."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from django.contrib.messages import get_messages
from django.urls import reverse

from hosts.models import BackupRoot
from hosts.root_admin import add_root
from hosts.store.root import MARKER
from tests import people
from tests.commands import herder
from tests.factories import make_host
from tests.hosts.rows import make_generation, make_source

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.models import Generation

pytestmark = pytest.mark.django_db(transaction=True)  # the admin looks at a disk after its commit


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Where the disk was."""
    (tmp_path / "old").mkdir()
    return tmp_path / "old"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Where it is now."""
    return tmp_path / "new"


@pytest.fixture
def kept(old: Path) -> Generation:
    """A generation on the disk."""
    add_root(old)
    generation = make_generation(make_source(make_host("pi1")), root=old)
    (generation.path / "tree").mkdir(parents=True)
    return generation


def added_in_admin(path: Path, **fields: str) -> list[str]:
    """Messages of the page that follows."""
    answer = people.boss().post(reverse("admin:hosts_backuproot_add"), {"path": str(path), **fields})
    assert answer.status_code == 302
    return [message.level_tag for message in get_messages(answer.wsgi_request) if message.level_tag == "error"]


def test_the_command_finds_it_at_its_new_place(kept: Generation, old: Path, new: Path) -> None:
    old.rename(new)
    ran = herder("backup_root", "--add", str(new))
    assert (ran.code, BackupRoot.objects.get()) == (0, kept.root)
    kept.root.refresh_from_db()
    assert kept.path.is_dir()
    assert kept.root.is_default


@pytest.mark.parametrize("wish", [{}, {"make_default": "on"}])
def test_the_admin_finds_it_too(kept: Generation, old: Path, new: Path, wish: dict[str, str]) -> None:
    old.rename(new)
    assert added_in_admin(new, **wish) == []
    row = BackupRoot.objects.get()
    assert (row.pk, row.path, row.is_default) == (kept.root_id, str(new), True)


def test_a_copy_of_the_disk_is_refused_in_words(kept: Generation, old: Path, new: Path) -> None:
    shutil.copytree(old, new)
    ran = herder("backup_root", "--add", str(new))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"{new} is the disk of the backup root {old}, or a copy of it: use that, or remove the copy's {MARKER}.\n"
    )
    assert BackupRoot.objects.get().path == str(old)
    assert added_in_admin(new) == ["error"]


def test_a_disk_at_the_place_of_another_one_with_backups_is_refused(kept: Generation, old: Path, new: Path) -> None:
    new.mkdir()
    add_root(new)
    shutil.rmtree(old)
    new.rename(old)
    ran = herder("backup_root", "--add", str(old))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"Another backup disk is mounted at {old}: mount the right one, or this elsewhere.\n"
    kept.root.refresh_from_db()
    assert kept.root.marker != BackupRoot.objects.get(path=str(new)).marker
