"""Whether an archive fits an installation."""

from __future__ import annotations

import pytest

from piherder.archive import fit
from piherder.archive.errors import ArchiveError
from piherder.archive.fit import Here
from piherder.archive.manifest import Engine
from tests.piherder.archive.test_manifest import sample

HERE = Here("sqlite", "0.1.0", {"jobs": {"0001_initial"}})
DUMP = Engine("postgresql", "15", tool=15)


def test_what_was_made_here_or_by_an_older_version_fits() -> None:
    fit.require(sample(), HERE)
    fit.require(sample(piherder="0.0.9", migrations={"gone": "0009_x"}), HERE)


def test_a_postgresql_dump_is_not_restored_into_sqlite() -> None:
    with pytest.raises(ArchiveError) as refused:
        fit.require(sample(database=DUMP), HERE)
    assert "holds a PostgreSQL database and this installation uses SQLite" in str(refused.value)
    assert "set DATABASE_URL to an empty PostgreSQL database" in str(refused.value)


def test_a_sqlite_file_is_not_restored_into_postgresql() -> None:
    with pytest.raises(ArchiveError, match="neither can be restored into the other: unset DATABASE_URL"):
        fit.require(sample(), Here("postgresql", "0.1.0", {}))


@pytest.mark.parametrize("version", ["0.1.1", "0.2.0", "1.0.0", "0.10.0"])
def test_a_newer_version_is_refused(version: str) -> None:
    with pytest.raises(ArchiveError, match="install that version first"):
        fit.require(sample(piherder=version), HERE)


def test_versions_are_compared_by_their_numbers() -> None:
    fit.require(sample(piherder="0.9.1"), Here("sqlite", "0.10.0", {}))
    with pytest.raises(ArchiveError, match=r"made by PiHerder 0\.10\.0, this is 0\.9\.1"):
        fit.require(sample(piherder="0.10.0"), Here("sqlite", "0.9.1", {}))


def test_a_newer_database_of_the_same_version_is_refused_with_its_commit() -> None:
    newer = sample(migrations={"jobs": "0002_more"}, commit="0123456789abcdef")
    with pytest.raises(ArchiveError, match=r"\(jobs 0002_more\): install .* commit 0123456789ab\."):
        fit.require(newer, HERE)


def test_every_key_of_the_archive_must_be_there() -> None:
    fit.require_key(["a"], ["b", "a"], by_variable=False)
    cases: list[tuple[list[str], bool, str]] = [(["b"], False, "--key"), ([], True, "PIHERDER_MASTER_KEYS")]
    for there, by_variable, way in (*cases, (["a"], False, "--key")):
        with pytest.raises(ArchiveError, match=f"belongs to another master key.*{way}"):
            fit.require_key(["a", "c"], there, by_variable=by_variable)
