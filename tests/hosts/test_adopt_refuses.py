"""What a backup disk holds is data that anybody may have written: what does not fit is passed over in words."""

from __future__ import annotations

import json
import os
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from hosts.adopt import adopt, taken_root
from hosts.models import BackupRoot, Generation, Host, Source
from hosts.store.layout import INFO, MANIFEST, TREE
from hosts.store.root import MARKER, RootUnusable, check
from tests.factories import make_host
from tests.hosts.disk import START, give_away, lay, listing, make_root, rewrite
from tests.hosts.rows import make_generation, make_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(tmp_path: Path) -> BackupRoot:
    return make_root(tmp_path / "root", is_default=True)


@pytest.fixture
def host() -> Host:
    return make_host("pi1")


def only_complaint(root: BackupRoot) -> str:
    """The one line of a root of which nothing can be attached; nothing on the disk was changed."""
    before = listing(root.path)
    done = adopt(root)
    assert (done.attached, Generation.objects.count()) == (0, 0)
    assert listing(root.path) == before
    [line] = done.lines
    assert "\n" not in line
    return line


# --- generations that are none -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [INFO, MANIFEST, TREE])
def test_a_generation_that_lacks_a_part(root: BackupRoot, host: Host, lost: str) -> None:
    path = lay(root.path, "pi1", "/srv/data")
    (path / lost).rename(path / "elsewhere")
    line = only_complaint(root)
    assert line.startswith(f"pi1/srv-data/{path.name} was passed over: ")
    assert lost in line


@pytest.mark.parametrize("damage", [b"", b"no gzip", b"\x1f\x8b\x08\x00"])
def test_a_manifest_that_cannot_be_read(root: BackupRoot, host: Host, damage: bytes) -> None:
    (lay(root.path, "pi1", "/srv/data") / MANIFEST).write_bytes(damage)
    assert "is damaged after 0 entries" in only_complaint(root)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"host": 1}', b"\xff\xfe"])
def test_a_record_that_cannot_be_read(root: BackupRoot, host: Host, damage: bytes) -> None:
    (lay(root.path, "pi1", "/srv/data") / INFO).write_bytes(damage)
    assert "generation.json is damaged" in only_complaint(root)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sequence", "1"), ("sequence", True), ("sequence", -1), ("sequence", 1 << 31), ("files", 1.5),
        ("bytes", 1 << 63), ("changed", None), ("rsync_code", -1), ("fake_super", "yes"),
        ("warnings", [1]), ("warnings", ["a\0b"]), ("warnings", ["\ud800"]), ("warnings", ["w"] * 1001),
        ("started", "2026-11-02T02:15:00"), ("finished", "0001-01-01T00:00:00+00:00"),
        ("finished", "9999-12-31T23:59:59-12:00"),
    ],
)  # fmt: skip
def test_a_record_with_a_value_that_no_backup_writes(root: BackupRoot, host: Host, field: str, value: Any) -> None:
    rewrite(lay(root.path, "pi1", "/srv/data"), **{field: value})
    assert only_complaint(root).endswith(f"generation.json is damaged: it holds no usable {field}.")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "pi2"}, "says that it is of the host pi2."),
        ({"host": ["pi1"]}, "says that it is of the host"),
        ({"host": "x\n\x1b[2J"}, "says that it is of the host x%0A%1B[2J."),
        ({"sequence": 2}, "says that it is 000002-20261102T021500Z."),
        ({"started": "2026-11-03T02:15:00+00:00"}, "says that it is 000001-20261103T021500Z."),
        ({"source": "srv/data"}, "is not absolute"),
        ({"source": "/srv/../etc"}, "contains '..'"),
        ({"source": "/srv//data"}, "names a source in a way that no backup does: /srv//data."),
        ({"source": "/srv/%00"}, "NUL"),
        ({"source": "/" + "x" * 1000}, "names a source in a way that no backup does: /xxx"),
        ({"source": "/etc"}, "it says that it holds /etc, which would lie in etc."),
    ],
)  # fmt: skip
def test_a_record_that_belongs_elsewhere(root: BackupRoot, host: Host, changes: dict[str, Any], words: str) -> None:
    rewrite(lay(root.path, "pi1", "/srv/data"), **changes)
    assert words in only_complaint(root)


def test_a_sound_generation_beside_a_broken_one_is_attached(root: BackupRoot, host: Host) -> None:
    rewrite(lay(root.path, "pi1", "/srv/data", 1), host="pi2")
    lay(root.path, "pi1", "/srv/data", 2)
    done = adopt(root)
    assert (done.attached, done.passed_over, done.complete) == (1, 1, False)
    assert Generation.objects.get().sequence == 2


def test_two_folders_of_one_number_do_not_share_a_row(root: BackupRoot, host: Host) -> None:
    first = lay(root.path, "pi1", "/srv/data", 1)
    second = lay(root.path, "pi1", "/srv/data", 1, started=START + timedelta(days=3))
    done = adopt(root)
    assert (done.attached, done.passed_over) == (1, 1)
    assert done.lines[0] == f"pi1:/srv/data {second.name} was passed over: another generation has the number 1."
    assert Generation.objects.get().folder == first.name
    assert adopt(root).there == 1


def test_a_number_that_the_database_gave_to_another_is_not_given_again(root: BackupRoot, host: Host) -> None:
    row = make_generation(make_source(host), 1, "/elsewhere")
    lay(root.path, "pi1", "/srv/data", 1)
    done = adopt(root)
    assert (done.attached, done.passed_over) == (0, 1)
    row.refresh_from_db()
    assert row.root.path == "/elsewhere"


# --- sources whose path and folder do not belong together ---------------------------------------------------------


def test_a_folder_that_belongs_to_another_source_of_the_host(root: BackupRoot, host: Host) -> None:
    Source.objects.create(host=host, path="/other", folder="srv-data")
    lay(root.path, "pi1", "/srv/data")
    assert only_complaint(root) == (
        "pi1/srv-data was passed over: it says that it holds /srv/data, but pi1 keeps /other in srv-data."
    )
    assert host.sources.count() == 1


def test_a_source_that_the_host_keeps_in_another_folder(root: BackupRoot, host: Host) -> None:
    Source.objects.create(host=host, path="/srv/data", folder="data")
    lay(root.path, "pi1", "/srv/data")
    assert "pi1 keeps /srv/data in data." in only_complaint(root)


def test_a_folder_in_which_two_sources_were_mixed_is_that_of_one(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data", 1)
    lay(root.path, "pi1", "/etc", 2, folder="srv-data")
    done = adopt(root)
    assert (done.attached, done.passed_over) == (1, 1)
    assert [(source.path, source.folder) for source in host.sources.all()] == [("/srv/data", "srv-data")]


def test_a_folder_that_was_renamed_by_hand_is_named(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data", folder="old-data")
    assert only_complaint(root).endswith("it says that it holds /srv/data, which would lie in srv-data.")


# --- names on the disk -------------------------------------------------------------------------------------------


def test_links_hidden_folders_and_files_are_not_followed(root: BackupRoot, host: Host, tmp_path: Path) -> None:
    top = Path(root.path)
    path = lay(tmp_path / "outside", "pi1", "/srv/data")
    (top / "pi1").symlink_to(tmp_path / "outside/pi1")
    (top / "lost+found").mkdir()
    lay(top, ".hidden", "/srv/data")
    (top / "note.txt").write_text("")
    make_host("pi2")
    (top / "pi2").mkdir()
    (top / "pi2/srv-data").symlink_to(path.parent)
    assert adopt(root).lines == []


def test_a_host_folder_with_an_odd_name_is_shown_harmlessly(root: BackupRoot) -> None:
    plain = lay(root.path, "pi1", "/srv/data").parents[1]
    os.rename(plain, os.fsencode(root.path) + b"/pi\n\x1b[2J\xff")
    assert only_complaint(root).startswith("Unknown host pi%0A%1B[2J%FF: 1 generation; add the host")


def test_other_names_beside_generations_are_nothing(root: BackupRoot, host: Host) -> None:
    place = lay(root.path, "pi1", "/srv/data").parent
    for name in ("000002", "2-20261102T021500Z", "000002-20261102T021500Z.bak", "000002-2026"):
        (place / name).mkdir()
    assert (adopt(root).attached, Generation.objects.count()) == (1, 1)


# --- the right disk ----------------------------------------------------------------------------------------------


def test_a_disk_that_is_not_mounted(root: BackupRoot) -> None:
    (Path(root.path) / MARKER).unlink()
    with pytest.raises(RootUnusable, match="not mounted"):
        adopt(root)


def test_another_disk_of_ours(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data")
    BackupRoot.objects.update(marker=uuid.uuid4())
    root.refresh_from_db()
    for foreign in (False, True):
        with pytest.raises(RootUnusable, match="Another backup disk is mounted"):
            adopt(root, foreign=foreign)
    assert Generation.objects.count() == 0


def test_a_disk_of_another_installation_is_taken_over_only_when_told(root: BackupRoot, host: Host) -> None:
    lay(root.path, "pi1", "/srv/data")
    give_away(Path(root.path))
    with pytest.raises(RootUnusable, match=r"belongs to another installation.*--from-other-installation"):
        adopt(root)
    before = (Path(root.path) / MARKER).read_bytes()
    assert adopt(root, foreign=True, dry_run=True).attached == 1
    assert (Path(root.path) / MARKER).read_bytes() == before
    assert adopt(root, foreign=True).attached == 1
    assert check(Path(root.path), settings.PIHERDER_INSTALL_ID, root.marker.hex).usable
    assert adopt(root).there == 1


def test_a_foreign_disk_that_is_new_here_gets_its_row(host: Host, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    give_away(tmp_path / "disk")
    lay(tmp_path / "disk", "pi1", "/srv/data")
    tried = taken_root(tmp_path / "disk", dry_run=True)
    assert (adopt(tried, dry_run=True, foreign=True).attached, BackupRoot.objects.count()) == (1, 0)
    assert json.loads((tmp_path / "disk" / MARKER).read_bytes())["install_id"] == "another"
    root = taken_root(tmp_path / "disk", dry_run=False)
    assert adopt(root).attached == 1
    assert Generation.objects.get().root == BackupRoot.objects.get()


def test_a_folder_without_any_marker_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(RootUnusable, match="has no marker"):
        taken_root(tmp_path, dry_run=False)
    assert BackupRoot.objects.count() == 0
