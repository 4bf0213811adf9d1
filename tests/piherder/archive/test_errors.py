"""What systems and programs say, as one sentence."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from jobs.models import Failure
from piherder.archive import errors, gpg, sqlite


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_has_its_own_code(number: int) -> None:
    told = errors.of_system(OSError(number, "whatever"), "/place")
    assert (told.code, str(told)[:38]) == (Failure.NO_SPACE, "There is no room left for /place: free")


def test_other_faults_of_the_system_are_named() -> None:
    told = errors.of_system(OSError(errno.EROFS, "Read-only file system"), "/place")
    assert str(told) == "/place cannot be used (Read-only file system): look at its disk and its rights."
    assert "odd" in str(errors.of_system(OSError("odd"), "/place"))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("pg_dump: error: query failed: x\n", "pg_dump failed: query failed: x."),
        ("first\nlast.\n", "pg_dump failed: last."),
        ("", "pg_dump failed: it gave no reason."),
    ],
)
def test_a_program_is_told_by_the_last_it_said(said: str, sentence: str) -> None:
    assert str(errors.of_program("pg_dump", said, "x")) == sentence


@pytest.mark.parametrize("said", ["x: No space left on device", "Disk quota exceeded", "database or disk is full"])
def test_a_program_without_room_has_the_code_of_a_full_disk(said: str) -> None:
    assert errors.of_program("gpg", said, "the archive").code == Failure.NO_SPACE


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("gpg: decryption failed: Bad session key\n", "The passphrase does not open"),
        ("gpg: WARNING: encrypted message has been manipulated!\n", "damaged or incomplete"),
        ("gpg: no valid OpenPGP data found.\n", "damaged or incomplete"),
        ("gpg: Fatal: zlib inflate problem: invalid code lengths set\n", "damaged or incomplete"),
        ("gpg: [stdout]: write error: No space left on device\n", "There is no room left"),
        ("gpg: something else\n", "gpg failed: something else."),
    ],
)
def test_what_gpg_says_is_understood(said: str, words: str) -> None:
    assert words in str(gpg.failure(said, "the archive"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (sqlite3.OperationalError("database or disk is full"), "no room left for goal"),
        (sqlite3.DatabaseError("database disk image is malformed"), "The database source is damaged"),
        (sqlite3.DatabaseError("file is not a database"), "The database source is damaged"),
        (sqlite3.OperationalError("database is locked"), "cannot be copied (database is locked): try again"),
    ],
)
def test_what_sqlite_says_is_understood(error: sqlite3.Error, words: str) -> None:
    assert words in str(sqlite.in_words(error, "source", "goal"))
