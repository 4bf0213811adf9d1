"""The manifest: what it carries, and what is refused in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from piherder.archive.errors import ArchiveError
from piherder.archive.manifest import Engine, Manifest, Member, read

DIGEST = "0" * 64


def sample(**changes: Any) -> Manifest:
    """A manifest of a plain SQLite archive."""
    values: dict[str, Any] = {
        "piherder": "0.1.0",
        "commit": "abc",
        "created_at": "2030-01-01T00:00:00+00:00",
        "install_id": "install",
        "database": Engine("sqlite", "3.40", unpacked=10),
        "migrations": {"jobs": "0001_initial"},
        "master_key": "not inside",
        "master_key_fingerprints": ["f" * 16],
        "counts": {"hosts": 2},
        "members": [Member("database.sqlite3.gz", 5, DIGEST), Member("site/install.id", 7, DIGEST)],
    }
    return Manifest(**{**values, **changes})


def altered(**changes: Any) -> bytes:
    """The sample with other values, as the archive would carry it."""
    return json.dumps({**json.loads(sample().to_bytes()), **changes}).encode()


def test_a_manifest_can_be_read_back() -> None:
    assert read(sample().to_bytes()) == sample()
    assert sample().dump == "database.sqlite3.gz"


def member(name: str = "database.sqlite3.gz", size: object = 5, digest: object = DIGEST) -> dict[str, object]:
    """A member as JSON."""
    return {"name": name, "size": size, "sha256": digest}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b"\xff", b"[" * 100_000, altered(members=[]), altered(members=[member(size=-1)]),
        altered(members=[member(size=True)]), altered(members=[member(size=1 << 60)]),
        altered(members=[member(digest="x")]),
        altered(members=[member(), member()]), altered(piherder=1), altered(piherder="a\nb"),
        altered(counts={"hosts": "1"}),
        altered(database={"engine": "oracle", "server": "1", "tool": 0, "unpacked": 0}), altered(master_key="inside"),
        altered(members=[member("database.pgdump")]),
    ],
)  # fmt: skip
def test_what_is_damaged_or_odd_is_refused(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="manifest cannot be read"):
        read(data)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "site/../x", "site/other", "site/django.key/", "SITE/django.key"]
)
def test_names_that_no_archive_holds_are_refused(name: str) -> None:
    with pytest.raises(ArchiveError, match="lists a file that no archive"):
        read(altered(members=[member(), member(name)]))


def test_a_key_of_absurd_size_is_refused() -> None:
    with pytest.raises(ArchiveError, match=r"said to have 1,000,000 bytes, which no key has"):
        read(altered(members=[member(), member("site/install.id", 1_000_000)]))


def test_a_later_format_names_what_to_do() -> None:
    with pytest.raises(ArchiveError, match="has format 2, this version reads format 1: install"):
        read(altered(format=2))
