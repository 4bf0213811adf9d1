"""Names of archives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from piherder.archive.names import ArchiveName, next_sequence, stamp

MOMENT = datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (ArchiveName(12, MOMENT), "herder-20300506T070809Z-000012.tar"),
        (ArchiveName(1234567, MOMENT, encrypted=True), "herder-20300506T070809Z-1234567.tar.gpg"),
    ],
)
def test_a_name_can_be_read_back(name: ArchiveName, text: str) -> None:
    assert str(name) == text
    assert ArchiveName.parse(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "", "herder.tar", "herder-20300506T070809Z-12.tar", "herder-20300506T070809Z-000012.tar.gz",
        "herder-20301306T070809Z-000012.tar", "herder-20300506T070809Z-000012.tar\n",
        ".partial-herder-20300506T070809Z",
        "before-restore-20300506T070809Z.sqlite3", "herder-20300506T070809Z-٠٠٠٠١٢.tar",
        "x/herder-20300506T070809Z-000012.tar",
    ],
)  # fmt: skip
def test_whatever_else_is_no_name_of_ours(text: str) -> None:
    assert ArchiveName.parse(text) is None


def test_the_next_one_stands_above_all() -> None:
    assert next_sequence([]) == 1
    assert next_sequence([ArchiveName(3, MOMENT), ArchiveName(9, MOMENT), ArchiveName(4, MOMENT)]) == 10


def test_stamps_are_in_utc() -> None:
    assert stamp(MOMENT.astimezone(timezone(timedelta(hours=9)))) == "20300506T070809Z"
