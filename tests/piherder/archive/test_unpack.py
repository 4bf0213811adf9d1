"""Encrypted archives that were tampered with, renamed, or made by someone else; all through the whole way in."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure
from piherder.archive import gpg, manifest, pack
from piherder.archive.errors import ArchiveError
from piherder.archive.unpack import Unpacked, is_encrypted, require_room, unpack
from tests.piherder.archive.test_manifest import sample

if TYPE_CHECKING:
    from pathlib import Path

SECRET = b"correct horse"
CONTENT = os.urandom(300_000)


def no_tick() -> None:
    """Nobody cancels."""


def plain(tmp_path: Path) -> bytes:
    """A good archive of one member."""
    file = tmp_path / "dump"
    file.write_bytes(CONTENT)
    member = pack.member_of(file, "database.sqlite3.gz", no_tick)
    out = io.BytesIO()
    pack.write(out, sample(members=[member]), {member.name: file}, no_tick)
    return out.getvalue()


def locked(tmp_path: Path, content: bytes, name: str = "archive.tar.gpg") -> Path:
    """These bytes, encrypted."""
    path = tmp_path / name
    with path.open("wb") as goal, gpg.encrypting(goal, SECRET, tmp_path / "home", no_tick) as pipe:
        pipe.write(content)
    return path


def opened(path: Path, tmp_path: Path, secret: bytes | None = SECRET) -> Unpacked:
    """Unpack into a new folder."""
    folder = tmp_path / "out"
    folder.mkdir()
    return unpack(path, secret, folder, no_tick)


@pytest.mark.parametrize("name", ["archive.tar.gpg", "archive.tar", "copy of archive"])
def test_the_content_says_whether_it_is_encrypted_not_the_name(tmp_path: Path, name: str) -> None:
    path = locked(tmp_path, plain(tmp_path), name)
    assert is_encrypted(path)
    assert opened(path, tmp_path).files["database.sqlite3.gz"].read_bytes() == CONTENT


def test_a_plain_archive_needs_no_passphrase_and_minds_none(tmp_path: Path) -> None:
    (tmp_path / "archive.tar.gpg").write_bytes(plain(tmp_path))
    assert not is_encrypted(tmp_path / "archive.tar.gpg")
    assert opened(tmp_path / "archive.tar.gpg", tmp_path).files


def test_without_a_passphrase_nothing_is_begun(tmp_path: Path) -> None:
    path = locked(tmp_path, plain(tmp_path))
    with pytest.raises(ArchiveError, match="name its passphrase with --passphrase-file") as refused:
        opened(path, tmp_path, None)
    assert refused.value.code == Failure.REFUSED
    assert list((tmp_path / "out").iterdir()) == []


def test_another_passphrase_is_told_as_such_and_not_as_damage(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="The passphrase does not open this archive"):
        opened(locked(tmp_path, plain(tmp_path)), tmp_path, b"battery staple")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.9999])
def test_a_truncated_one_is_refused(tmp_path: Path, share: float) -> None:
    path = locked(tmp_path, plain(tmp_path))
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(ArchiveError, match="damaged or incomplete"):
        opened(path, tmp_path)


@pytest.mark.parametrize("place", [600, 150_000, -20])
def test_a_changed_byte_is_found_wherever_it_is(tmp_path: Path, place: int) -> None:
    path = locked(tmp_path, plain(tmp_path))
    data = bytearray(path.read_bytes())
    data[place] ^= 0x20
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match=r"damaged|changed|manifest|no plain file|gpg failed"):
        opened(path, tmp_path)


def test_something_else_that_was_encrypted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="damaged or incomplete"):
        opened(locked(tmp_path, b"a letter\n" * 1000), tmp_path)


def test_an_encrypted_archive_of_someone_else_is_refused(tmp_path: Path) -> None:
    other = io.BytesIO()
    with tarfile.open(fileobj=other, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../../evil"), io.BytesIO())
    with pytest.raises(ArchiveError, match="its first file is no manifest"):
        opened(locked(tmp_path, other.getvalue()), tmp_path)
    assert not (tmp_path.parent / "evil").exists()


def test_what_follows_the_end_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpg, "LONGEST_REST", 1 << 20)
    path = locked(tmp_path, plain(tmp_path) + b"\0" * (3 << 20))
    with pytest.raises(ArchiveError, match="Far more follows behind the end"):
        opened(path, tmp_path)


def test_a_little_padding_is_no_harm(tmp_path: Path) -> None:
    assert opened(locked(tmp_path, plain(tmp_path) + b"\0" * 10_240), tmp_path).files


def test_room_is_counted_with_the_unpacked_database(tmp_path: Path) -> None:
    small = [manifest.Member("database.sqlite3.gz", 10, "0" * 64)]
    require_room(sample(members=small), tmp_path)
    huge = manifest.Engine("sqlite", "3", unpacked=1 << 59)
    with pytest.raises(ArchiveError, match=r"576460\.8 TB are needed") as refused:
        require_room(sample(members=small, database=huge), tmp_path)
    assert refused.value.code == Failure.NO_SPACE
