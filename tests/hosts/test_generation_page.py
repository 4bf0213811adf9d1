"""The page of one generation on bad days: retention takes it just now, its files are dated beyond our calendar."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from hosts.models import Generation, GenerationStatus
from hosts.store.manifest import write_manifest
from tests import people
from tests.commands import herder
from tests.factories import make_host
from tests.hosts.rows import make_generation, make_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.django_db


@pytest.fixture
def generation() -> Generation:
    return make_generation(make_source(make_host("pi-attic")), 7)


@contextmanager
def retention_comes_first() -> Iterator[None]:
    """Every generation begins to be deleted just before the first statement that would change one."""
    came: list[str] = []

    def look(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith('UPDATE "hosts_generation"') and not came:
            came.append(sql)
            Generation.objects.update(status=GenerationStatus.DELETING)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield


@pytest.mark.parametrize("name", ["keep_generation", "let_generation_go"])
def test_a_generation_that_retention_takes_at_that_moment_is_not_called_kept(generation: Generation, name: str) -> None:
    address = reverse(name, args=["pi-attic", generation.pk])
    with retention_comes_first():
        page = people.runner().post(address, {"note": "before the move"}, follow=True).content.decode()
    assert "Generation 7 is being deleted." in page
    assert "for ever." not in page
    assert Generation.objects.get().kept_at is None


@pytest.mark.parametrize("words", [[], ["--release"]], ids=["keep", "release"])
def test_the_command_says_so_too(generation: Generation, words: list[str]) -> None:
    with retention_comes_first():
        ran = herder("keep_generation", "pi-attic", "/srv/data", "7", *words)
    assert (ran.code, ran.out, ran.err) == (1, "", "Generation 7 is being deleted.\n")
    assert Generation.objects.get().kept_at is None


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on tmpfs, which keeps any date that a file is given; ext4 cuts those after 2446."""
    folder = Path(tempfile.mkdtemp(prefix="piherder-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("seconds", [253_402_300_799, 253_402_300_800, 1 << 40, 99_999_999_999_999, -(1 << 40)])
def test_a_file_dated_beyond_the_calendar_is_listed(memory: Path, seconds: int) -> None:
    found = make_generation(make_source(make_host("pi-attic")), root=memory)
    (found.path / "tree").mkdir(parents=True)
    (found.path / "tree" / "far.txt").write_text("x")
    os.utime(found.path / "tree" / "far.txt", ns=(0, seconds * 10**9))
    assert (found.path / "tree" / "far.txt").stat().st_mtime == seconds
    write_manifest(found.path / "tree", {}, None, found.path / "manifest.jsonl.gz")
    with timezone.override("Pacific/Kiritimati"):  # where the last second of 9999 is in the year after
        response = people.runner().get(reverse("generation", args=["pi-attic", found.pk]))
    assert response.status_code == 200
    assert "far.txt" in response.content.decode()
