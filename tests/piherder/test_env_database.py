"""DATABASE_URL taken apart: every part of it, odd characters, and the sentences for what cannot be read."""

from __future__ import annotations

import pytest

from piherder import env
from piherder.env import BadEnvironment, Database


def found(monkeypatch: pytest.MonkeyPatch, url: str) -> Database:
    monkeypatch.setenv("DATABASE_URL", url)
    return env.database()


def test_without_one_it_is_a_file_in_the_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_DATA", "/srv/herd")
    assert found(monkeypatch, "") == Database("sqlite3", "/srv/herd/db.sqlite3")


@pytest.mark.parametrize("folder", ["/srv/pi#1", "/srv/100%25", "/srv/a?b", "/srv/grün und blau"])
def test_a_data_folder_may_have_any_name(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv("PIHERDER_DATA", folder)
    assert found(monkeypatch, "").name == f"{folder}/db.sqlite3"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:////srv/db.sqlite3", "/srv/db.sqlite3"),
        ("sqlite:///srv/db.sqlite3", "/srv/db.sqlite3"),
        ("SQLite:////srv/db", "/srv/db"),
        ("sqlite:////a%20b/100%25%23%3F.db", "/a b/100%#?.db"),
    ],
)
def test_a_file_of_sqlite_has_an_absolute_path(monkeypatch: pytest.MonkeyPatch, url: str, name: str) -> None:
    assert found(monkeypatch, url) == Database("sqlite3", name)


def test_every_part_of_an_address_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Database("postgresql", "herd", "pi", "secret", "db.example", "5433")
    assert found(monkeypatch, "postgresql://pi:secret@db.example:5433/herd") == expected
    assert found(monkeypatch, "postgres://pi:secret@db.example:5433/herd") == expected


def test_what_an_address_leaves_out_is_left_to_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, "postgresql:///herd") == Database("postgresql", "herd")
    assert found(monkeypatch, "postgresql://db/herd") == Database("postgresql", "herd", host="db")


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ("p%40ss", "p@ss"),
        ("%2F%3A%3F%23", "/:?#"),
        ("100%25", "100%"),
        ("gr%C3%BCn", "grün"),
        ("a:b", "a:b"),
        ("+", "+"),
    ],
)
def test_a_password_may_hold_any_character(monkeypatch: pytest.MonkeyPatch, written: str, password: str) -> None:
    assert found(monkeypatch, f"postgresql://pi:{written}@db:5432/herd").password == password


def test_user_and_name_may_hold_any_character(monkeypatch: pytest.MonkeyPatch) -> None:
    got = found(monkeypatch, "postgresql://pi%40home:x@db/my%20herd")
    assert (got.user, got.name) == ("pi@home", "my herd")


def test_an_address_of_version_six_stands_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    got = found(monkeypatch, "postgresql://pi:x@[::1]:5433/herd")
    assert (got.host, got.port) == ("::1", "5433")
    assert found(monkeypatch, "postgresql://[fe80::1]/herd").host == "fe80::1"


def test_the_folder_of_a_socket_keeps_its_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, "postgresql://pi@%2Fsrv%2FData/herd").host == "/srv/Data"


def test_a_wish_for_encryption_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://pi:x@db/herd?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem"
    assert found(monkeypatch, url).options == (("sslmode", "verify-full"), ("sslrootcert", "/etc/ca.pem"))


@pytest.mark.parametrize("url", ["mysql://db/herd", "db.sqlite3", "/srv/db", "https://db/herd", "sqlite3:///x"])
def test_another_kind_of_database_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    with pytest.raises(BadEnvironment, match=r"^DATABASE_URL must start with postgresql:// or sqlite:///\.$"):
        found(monkeypatch, url)


@pytest.mark.parametrize("url", ["postgresql://db:5432/", "postgresql://db", "sqlite://", "postgresql://"])
def test_an_address_without_a_name_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    with pytest.raises(BadEnvironment, match="must end with the name of a database"):
        found(monkeypatch, url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://pi:S3cr3t@db:port/herd",
        "postgresql://pi:S3cr3t@db:70000/herd",
        "postgresql://pi:S3cr3t/x@db/herd",  # a slash that was not written as %2F
        "postgresql://pi:S3cr3t#x@db/herd",
        "postgresql://pi:[S3cr3t@db/herd",
        "postgresql://pi:S3cr3t@db/herd?sslmode",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:  # case G16
    with pytest.raises(BadEnvironment, match=r"%2F %23 %3F") as refusal:
        found(monkeypatch, url)
    assert "S3cr3t" not in str(refusal.value)
    assert refusal.value.__cause__ is None
