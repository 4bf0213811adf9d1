"""What `make install` decides before it changes anything, from its command line and the settings that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from piherder import env, envfile
from piherder.house import accounts, choice, install
from piherder.house.choice import OWN_POSTGRESQL, Wish
from piherder.house.folder import CLONE, Refused
from piherder.house.layout import Layout
from piherder.house.stack import DRAIN_MARGIN

LAYOUT = Layout()
FRESH = choice.decide(Wish(), {}, LAYOUT)


def test_the_default_is_embedded_on_loopback() -> None:
    assert FRESH == {
        "PIHERDER_DATA": "/var/lib/piherder",
        "PIHERDER_BACKUPS": "/var/backups/piherder",
        "PIHERDER_BIND": "127.0.0.1",
        "PIHERDER_PORT": "8000",
        "DATABASE_URL": "sqlite:////var/lib/piherder/db.sqlite3",
        "REDIS_URL": "unix:///var/lib/piherder/redis/redis.sock",
    }


def test_what_was_chosen_is_written() -> None:
    wish = Wish(bind="::", port=8080, database="postgresql", backups=Path("/mnt/usb/p"))
    found = choice.decide(wish, {}, LAYOUT)
    assert (found["PIHERDER_BIND"], found["PIHERDER_PORT"]) == ("::", "8080")
    assert (found["PIHERDER_BACKUPS"], found["DATABASE_URL"]) == ("/mnt/usb/p", OWN_POSTGRESQL)


def test_a_second_time_nothing_changes() -> None:
    assert choice.decide(Wish(), FRESH, LAYOUT) == {}
    assert choice.decide(Wish(database="embedded", redis="embedded"), FRESH, LAYOUT) == {}


def test_edits_of_the_owner_stay() -> None:
    edited = {**FRESH, "PIHERDER_PORT": "9000", "REDIS_URL": "redis://10.0.0.1/0", "TZ": "Europe/Berlin"}
    assert choice.decide(Wish(), edited, LAYOUT) == {}


def test_an_option_changes_its_own_line_alone() -> None:
    assert choice.decide(Wish(port=9000), FRESH, LAYOUT) == {"PIHERDER_PORT": "9000"}


def test_another_data_folder_in_the_settings_is_followed() -> None:
    found = choice.decide(Wish(), {"PIHERDER_DATA": "/srv/my data"}, LAYOUT)
    assert found["DATABASE_URL"] == "sqlite:////srv/my%20data/db.sqlite3"
    assert choice.own_redis({"PIHERDER_DATA": "/srv/my data", **found}, LAYOUT)


def test_data_are_not_moved_to_another_database() -> None:
    with pytest.raises(Refused, match=r"keeps its data in embedded .*does not move them to postgresql"):
        choice.decide(Wish(database="postgresql"), FRESH, LAYOUT)


def test_a_database_that_the_owner_named_is_left_to_them() -> None:
    theirs = {"DATABASE_URL": "postgresql://piherder@db.lan/piherder"}
    assert choice.database_of(theirs) == choice.OTHER
    assert "DATABASE_URL" not in choice.decide(Wish(), theirs, LAYOUT)
    with pytest.raises(Refused, match="keeps its data in another server"):
        choice.decide(Wish(database="embedded"), theirs, LAYOUT)


def test_a_redis_that_the_owner_named_is_left_to_them() -> None:
    with pytest.raises(Refused, match="names another Redis"):
        choice.decide(Wish(redis="redis-server"), {**FRESH, "REDIS_URL": "redis://10.0.0.1/0"}, LAYOUT)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("backups", "absolute"),
        ("/srv/../etc", "absolute"),
        ("/var/lib/piherder/backups", "data folder"),
        ("/opt/piherder", "program's folder"),
        (str(CLONE / "backups"), "the clone"),
        ("/home/pi/usb", "home folder"),
        ("/root", "home folder"),
        ("/run/user/1000/x", "home folder"),
    ],
)
def test_backups_go_where_they_survive_and_can_be_seen(path: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        choice.check_backups(Path(path), Path("/var/lib/piherder"), LAYOUT)


def test_a_disk_of_its_own_is_welcome() -> None:
    choice.check_backups(Path("/mnt/usb"), Path("/var/lib/piherder"), LAYOUT)


def test_the_private_postgresql_is_reached_by_the_users_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", OWN_POSTGRESQL)
    found = env.database()
    assert (found.name, found.user, found.password, found.host) == ("piherder", "", "", "")
    assert found.options == (("host", "/var/run/postgresql"),)


def test_the_file_says_how_to_use_it_and_reads_back() -> None:
    text = envfile.with_values(choice.HEAD, FRESH)
    assert envfile.parse(text) == FRESH
    assert "sudo systemctl restart piherder.target" in text


def test_options_reach_the_wish() -> None:
    words = ["--bind", "0.0.0.0", "--port", "80", "--redis", "redis-server", "--backups", "/mnt/usb", "--yes"]
    assert choice.parse(words) == Wish("0.0.0.0", 80, None, "redis-server", Path("/mnt/usb"), True)


@pytest.mark.parametrize("words", [["--port", "0"], ["--port", "65536"], ["--database", "mysql"], ["extra"]])
def test_wrong_use_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        choice.parse(words)
    assert end.value.code == 2
    assert "make install" in capsys.readouterr().err


def test_stop_time_follows_the_grace_in_the_settings() -> None:
    found = install.facts(LAYOUT, {**FRESH, "PIHERDER_DRAIN_GRACE_SEC": "600"})
    assert found.stop_seconds == 600 + DRAIN_MARGIN
    assert install.facts(LAYOUT, FRESH).stop_seconds == 20 + DRAIN_MARGIN


def test_a_port_that_is_none_is_told_before_anything_stops() -> None:
    with pytest.raises(Refused, match=r"PIHERDER_PORT in .* must lie between 1 and 65535, not 'http'"):
        install.facts(LAYOUT, {**FRESH, "PIHERDER_PORT": "http"})


def test_a_python_in_a_home_folder_is_refused() -> None:
    with pytest.raises(Refused, match="PYTHON=/usr/bin/python3"):
        install.check_python(Path("/root/.pyenv/versions/3.12.1/bin/python3.12"))
    install.check_python(Path("/usr/bin/python3.13"))


# --- user and folders ---------------------------------------------------------------------------------------------


def test_the_user_has_no_shell_and_no_password() -> None:
    words = accounts.useradd(Path("/var/lib/piherder"))
    assert words[:3] == ["useradd", "--system", "--user-group"]
    assert words[words.index("--shell") + 1] == "/usr/sbin/nologin"
    assert words[words.index("--home-dir") + 1 :] == ["/var/lib/piherder", "piherder"]


def test_root_is_a_system_user_and_nobody_is_missing() -> None:
    assert accounts.find("root") == accounts.Account(0, 0)
    assert accounts.find("no-such-user") is None


def test_a_persons_login_is_not_taken() -> None:
    with pytest.raises(Refused, match="is a person's login"):
        accounts.find("nobody")  # 65534 on Debian, above what system users get


def test_a_folder_is_made_private_and_the_way_to_it_passable(tmp_path: Path) -> None:
    accounts.own_folder(tmp_path / "mnt/usb/p", accounts.Account(12345, 12346))
    found = (tmp_path / "mnt/usb/p").stat()
    assert (found.st_uid, found.st_gid, oct(found.st_mode & 0o777)) == (12345, 12346, "0o700")
    assert oct((tmp_path / "mnt/usb").stat().st_mode & 0o777) == "0o755"


def test_files_of_others_are_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "db.sqlite3").touch()
    with pytest.raises(Refused, match=r"holds files of root, perhaps those of a `make run`"):
        accounts.own_folder(tmp_path, accounts.Account(12345, 12346))


def test_a_fresh_disk_and_own_files_are_fine(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    account = accounts.Account(12345, 12346)
    accounts.own_folder(tmp_path, account)
    (tmp_path / "host").mkdir()
    accounts.own_folder(tmp_path, account)


def test_a_link_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert "is no folder" in accounts.refusal(tmp_path / "link", None)


def test_an_owner_without_a_name_is_a_number() -> None:
    assert accounts.owner_name(54321) == "user 54321"
