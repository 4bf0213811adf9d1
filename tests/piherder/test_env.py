"""The environment of an installation: every kind of value, its default, and the sentence for one that cannot be."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from piherder import env
from piherder.env import BadEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of this test; no address of the runner's own servers."""
    for name in ("DATABASE_URL", "REDIS_URL", "X"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIHERDER_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return monkeypatch


# --- words and numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "found"), [("", "default"), ("  ", "default"), (" a b ", "a b"), ("0", "0")])
def test_blank_is_unset_and_blanks_around_are_no_part(given: pytest.MonkeyPatch, value: str, found: str) -> None:
    given.setenv("X", value)
    assert env.text("X", "default") == found


def test_an_unset_variable_is_its_default() -> None:
    assert (env.text("X"), env.flag("X"), env.flag("X", default=True), env.words("X")) == ("", False, True, [])


@pytest.mark.parametrize("value", ["1", "true", "YES", "On", " yes "])
def test_yes_has_many_spellings(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv("X", value)
    assert env.flag("X") is True


@pytest.mark.parametrize("value", ["0", "false", "No", "OFF"])
def test_no_is_no_where_the_default_is_yes(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv("X", value)
    assert env.flag("X", default=True) is False


@pytest.mark.parametrize("value", ["ture", "2", "enabled", "y e s"])
def test_a_mistyped_yes_is_not_a_quiet_no(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv("X", value)
    with pytest.raises(BadEnvironment, match=r"^X must be yes or no, not '.*'\.$"):
        env.flag("X")


@pytest.mark.parametrize(("value", "found"), [("", 7), ("5", 5), ("9", 9), (" 6 ", 6), ("+8", 8)])
def test_a_number_lies_within_its_bounds(given: pytest.MonkeyPatch, value: str, found: int) -> None:
    given.setenv("X", value)
    assert env.number("X", 7, 5, 9) == found


@pytest.mark.parametrize("value", ["4", "10", "-5", "99999999999999999999"])
def test_a_number_out_of_bounds_names_the_bounds(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv("X", value)
    with pytest.raises(BadEnvironment, match=rf"^X must lie between 5 and 9, not {value}\.$"):
        env.number("X", 7, 5, 9)


@pytest.mark.parametrize("value", ["30s", "1.5", "seven", "0x10", "1e3"])
def test_what_is_no_number_is_said(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv("X", value)
    with pytest.raises(BadEnvironment, match=rf"^X must be a whole number, not '{value}'\.$"):
        env.number("X", 7, 5, 9)


@pytest.mark.parametrize("value", ["a,b c", " a , b ,, c ", "a\tb\nc"])
def test_words_are_split_at_commas_and_blanks(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv("X", value)
    assert env.words("X", "d") == ["a", "b", "c"]


def test_a_log_level_may_be_written_small(given: pytest.MonkeyPatch) -> None:
    assert env.log_level("X", "INFO") == "INFO"
    given.setenv("X", "debug")
    assert env.log_level("X", "INFO") == "DEBUG"


def test_a_log_level_that_is_none_is_said(given: pytest.MonkeyPatch) -> None:
    given.setenv("X", "loud")
    with pytest.raises(BadEnvironment, match=r"X must be one of DEBUG, INFO, .* not 'LOUD'\.$"):
        env.log_level("X", "INFO")


@pytest.mark.parametrize(
    ("value", "found"), [("", "UTC"), ("Europe/Berlin", "Europe/Berlin"), (":Asia/Tokyo", "Asia/Tokyo")]
)
def test_a_time_zone_is_one_of_the_tz_database(given: pytest.MonkeyPatch, value: str, found: str) -> None:
    given.setenv("X", value)
    assert env.zone("X", "UTC") == found


@pytest.mark.parametrize("value", ["Mars/Olympus", "CET-1CEST", "../../etc/passwd", "/etc/localtime", "Europe"])
def test_a_time_zone_that_is_none_is_said(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv("X", value)
    with pytest.raises(BadEnvironment, match=r"^X must be a time zone such as Europe/Berlin, not "):
        env.zone("X", "UTC")


def test_a_started_program_gets_our_environment_with_the_changes(given: pytest.MonkeyPatch) -> None:
    given.setenv("X", "ours")
    assert env.child_environment()["X"] == "ours"
    assert env.child_environment(X="theirs")["X"] == "theirs"
    assert env.text("X") == "ours"


def test_the_settings_that_the_caller_named_stay(given: pytest.MonkeyPatch) -> None:
    given.setenv("DJANGO_SETTINGS_MODULE", "mine")
    env.use_settings()
    assert env.text("DJANGO_SETTINGS_MODULE") == "mine"
    given.delenv("DJANGO_SETTINGS_MODULE")
    env.use_settings()
    assert env.text("DJANGO_SETTINGS_MODULE") == "piherder.settings"


# --- the data folder ---------------------------------------------------------------------------------------------


def test_the_data_folder_may_name_the_home_folder(given: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given.setenv("HOME", str(tmp_path))
    given.setenv("PIHERDER_DATA", "~/herd")
    assert env.data_folder() == tmp_path / "herd"


@pytest.mark.parametrize(("user", "place"), [(0, "/var/lib/piherder"), (1000, "{home}/.local/share/piherder")])
def test_the_data_folder_of_root_is_the_systems(
    given: pytest.MonkeyPatch, tmp_path: Path, user: int, place: str
) -> None:
    given.delenv("PIHERDER_DATA")
    given.setenv("HOME", str(tmp_path))
    given.setattr("os.geteuid", lambda: user)
    assert str(env.data_folder()) == place.format(home=tmp_path)


# --- the addresses of the servers --------------------------------------------------------------------------------


def test_redis_is_the_embedded_one(data: Path) -> None:
    assert env.redis_url() == f"unix://{data}/redis/redis.sock"
    assert env.broker_url() == f"redis+socket://{data}/redis/redis.sock"


def test_a_folder_with_odd_characters_is_an_address_all_the_same(given: pytest.MonkeyPatch) -> None:
    given.setenv("PIHERDER_DATA", "/srv/a b#1%?")
    assert env.redis_url() == "unix:///srv/a%20b%231%25%3F/redis/redis.sock"


def test_redis_is_where_the_running_stack_noted_it(data: Path) -> None:
    (data / "redis").mkdir(parents=True)
    (data / "redis/address").write_text("unix:///tmp/piherder-x/redis.sock\n")
    assert env.redis_url() == "unix:///tmp/piherder-x/redis.sock"
    assert env.broker_url() == "redis+socket:///tmp/piherder-x/redis.sock"


def test_a_note_that_a_power_cut_left_empty_is_none(data: Path) -> None:
    (data / "redis").mkdir(parents=True)
    (data / "redis/address").write_text("\n")
    assert env.redis_url() == f"unix://{data}/redis/redis.sock"


def test_a_given_address_of_redis_stands_before_the_noted_one(given: pytest.MonkeyPatch, data: Path) -> None:
    (data / "redis").mkdir(parents=True)
    (data / "redis/address").write_text("unix:///elsewhere")
    given.setenv("REDIS_URL", "rediss://:p%40ss@redis.example:6380/2")
    assert env.redis_url() == env.broker_url() == "rediss://:p%40ss@redis.example:6380/2"


# --- secret files ------------------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_handed() -> Iterator[None]:
    """A process whose new files everybody may read, unless it says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_handed")
def test_a_secret_is_made_once_and_for_its_owner_alone(data: Path) -> None:
    first = env.secret_file("master.key")
    assert env.secret_file("master.key") == first
    assert (mode(data), mode(data / "master.key"), len(first)) == (0o700, 0o600, 64)


def test_two_secrets_differ() -> None:
    assert env.secret_file("a.key") != env.secret_file("b.key")


def test_the_making_of_a_secret_leaves_no_draft(data: Path) -> None:
    env.secret_file("master.key")
    assert [path.name for path in data.iterdir()] == ["master.key"]


def test_a_secret_that_another_process_made_first_stays(data: Path) -> None:
    data.mkdir()
    (data / "master.key").write_text("theirs\n")
    env._create_once(data / "master.key", "ours")
    assert env.secret_file("master.key") == "theirs"
    assert [path.name for path in data.iterdir()] == ["master.key"]


@pytest.mark.parametrize("content", [b"", b"\n \n", b"caf\xe9"])
def test_an_empty_or_damaged_secret_is_never_replaced(data: Path, content: bytes) -> None:  # case E01
    data.mkdir()
    (data / "master.key").write_bytes(content)
    with pytest.raises(BadEnvironment, match=r"master\.key is empty or damaged: put back the one from your backup\.$"):
        env.secret_file("master.key")
    assert (data / "master.key").read_bytes() == content


def test_a_data_folder_that_cannot_be_made_is_said(data: Path) -> None:
    data.write_text("a file stands there")
    with pytest.raises(BadEnvironment, match="look at PIHERDER_DATA"):
        env.secret_file("master.key")


def test_a_secret_that_is_a_folder_is_said(data: Path) -> None:
    (data / "master.key").mkdir(parents=True)
    with pytest.raises(BadEnvironment, match="Is a directory"):
        env.secret_file("master.key")
