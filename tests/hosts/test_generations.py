"""Generations as the database knows them, next to what is on the disk."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.db import IntegrityError

from hosts import generations
from hosts.models import BackupRoot, Generation, GenerationStatus, Source
from hosts.store import layout
from hosts.store.root import create_marker
from tests.factories import make_host
from tests.hosts.store import build

pytestmark = pytest.mark.django_db


@dataclass(frozen=True, slots=True)
class AnyRun:
    """As much of a run as a row needs."""

    attempt: str = str(uuid.uuid4())
    job_id: None = None


@pytest.fixture
def root(tmp_path: Path) -> BackupRoot:
    return BackupRoot.objects.create(path=str(tmp_path), is_default=True)


@pytest.fixture
def source() -> Source:
    return Source.objects.create(host=make_host("pi1"), path="/srv/data", folder="srv-data", accept_shrink=True)


def folder_of(root: BackupRoot, source: Source) -> Path:
    folder = Path(root.path) / source.host.name / source.folder
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def begin(source: Source, root: BackupRoot) -> Generation:
    run: object = AnyRun()
    return generations.begin(source, root, folder_of(root, source), run, fake_super=False)  # type: ignore[arg-type]  # as much as is needed


def published(row: Generation) -> Generation:
    """The row's folder on disk, as a run that was killed before its last write leaves it."""
    partial = layout.take_over(row.path.parent, "a")
    build.write(partial.tree / "one", b"one")
    info = layout.GenerationInfo(
        "pi1", "/srv/data", row.sequence, row.started_at, datetime(2026, 11, 30, tzinfo=UTC), "i", "1", warnings=("w",)
    )
    layout.seal(partial, info, {}, None)
    layout.publish(partial, row.path)
    return row


def test_the_sequence_lies_above_all_of_the_database_and_of_the_disk(root: BackupRoot, source: Source) -> None:
    assert [begin(source, root).sequence for _ in range(2)] == [1, 2]
    (folder_of(root, source) / "000041-20200101T000000Z").mkdir()
    row = begin(source, root)
    assert (row.sequence, row.status, row.folder[:7]) == (42, GenerationStatus.WRITING, "000042-")


def test_two_rows_of_one_sequence_cannot_be(root: BackupRoot, source: Source) -> None:
    begin(source, root)
    with pytest.raises(IntegrityError):
        Generation.objects.create(source=source, root=root, sequence=1, folder="x")


def test_a_published_one_becomes_good_with_what_the_disk_says(root: BackupRoot, source: Source) -> None:
    row = published(begin(source, root))
    generations.reconcile(source, root, row.path.parent)
    row.refresh_from_db()
    source.refresh_from_db()
    assert (row.status, row.files, row.bytes, row.warnings) == (GenerationStatus.GOOD, 1, 3, ["w"])
    assert (source.last_good_at, source.accept_shrink) == (datetime(2026, 11, 30, tzinfo=UTC), False)


def test_an_unfinished_one_is_forgotten(root: BackupRoot, source: Source) -> None:
    row = begin(source, root)
    generations.reconcile(source, root, row.path.parent)
    assert not Generation.objects.exists()


def test_a_damaged_record_is_not_called_good(root: BackupRoot, source: Source) -> None:
    row = published(begin(source, root))
    (row.path / layout.INFO).write_text("{")
    generations.reconcile(source, root, row.path.parent)
    assert not Generation.objects.exists()
    assert row.path.is_dir()


def test_what_lies_on_another_disk_is_left_for_a_run_that_has_it(
    root: BackupRoot, source: Source, tmp_path: Path
) -> None:
    other = BackupRoot.objects.create(path=str(tmp_path / "other"))
    row = published(begin(source, other))
    generations.reconcile(source, root, folder_of(root, source))
    assert Generation.objects.get().status == GenerationStatus.WRITING
    generations.reconcile(source, other, row.path.parent)
    assert Generation.objects.get().status == GenerationStatus.GOOD


def test_what_is_being_deleted_never_becomes_good_again(root: BackupRoot, source: Source) -> None:
    row = published(begin(source, root))
    info = layout.list_generations(row.path.parent)[0].info
    assert info is not None
    assert generations.mark_good(row, info)
    Generation.objects.update(status=GenerationStatus.DELETING)
    assert not generations.mark_good(row, info)
    assert Generation.objects.get().status == GenerationStatus.DELETING


def test_forgetting_spares_what_is_good(root: BackupRoot, source: Source) -> None:
    unfinished, good = begin(source, root), published(begin(source, root))
    generations.reconcile(source, root, good.path.parent)
    for row in (unfinished, good):
        generations.forget(row)
    assert Generation.objects.get() == good


def test_the_newest_good_one_is_one_that_is_there(root: BackupRoot, source: Source) -> None:
    assert generations.newest_good(source) is None
    first, second = published(begin(source, root)), begin(source, root)
    generations.reconcile(source, root, first.path.parent)
    gone = {"status": GenerationStatus.GOOD, "finished_at": first.started_at}
    Generation.objects.create(source=source, root=root, sequence=second.sequence, folder="000002-x", **gone)
    assert generations.newest_good(source) == first


def test_what_the_disk_cannot_say_anything_of_counts_as_there(root: BackupRoot, source: Source) -> None:
    gone, unknown = begin(source, root), begin(source, root)
    unknown.root = BackupRoot(path=f"{root.path}/{'x' * 300}")
    create_marker(Path(root.path), settings.PIHERDER_INSTALL_ID, root.marker.hex)
    assert generations.on_disk([gone, unknown]) == [unknown]
