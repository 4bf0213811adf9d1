"""Settings as a fresh process reads them from its environment, and how a bad value meets the person."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from piherder import env
from piherder.house.folder import CLONE

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = (
    "PIHERDER_SERVER_LOCK_TTL", "PIHERDER_LOCK_WAIT_SEC", "PIHERDER_EXCLUSIVE_HOST_WAIT_SEC", "PIHERDER_RESERVED_SLOTS",
    "PIHERDER_DRAIN_GRACE_SEC", "PIHERDER_BEAT_SEC", "PIHERDER_SILENCE_SEC", "PIHERDER_PROBE_SEC", "CELERY_CONCURRENCY",
)  # fmt: skip
SHOW = """
import django, json, sys
from django.conf import settings
django.setup()
found = {n: getattr(settings, n, None) for n in sys.argv[1:]}
print(json.dumps({n: list(v) if n == "PIHERDER_MASTER_KEYS" else v for n, v in found.items()}, default=str))
"""


def fresh(data: Path, command: list[str], **changes: str) -> subprocess.CompletedProcess[str]:
    """A process of ours that knows only these variables."""
    given = {name: value for name, value in env.child_environment().items() if name in {"PATH", "HOME", "LANG"}}
    given |= {"PIHERDER_DATA": str(data), "DJANGO_SETTINGS_MODULE": "piherder.settings", **changes}
    return subprocess.run(
        [sys.executable, *command], env=given, cwd=CLONE, capture_output=True, text=True, timeout=60, check=False
    )


def read(data: Path, *names: str, **changes: str) -> dict[str, Any]:
    done = fresh(data, ["-c", SHOW, *names], **changes)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_installation_without_any_variable_has_the_documented_defaults(tmp_path: Path) -> None:
    found = read(tmp_path, *ENGINE)
    assert list(found.values()) == [60, 10_800, None, 1, 20, 5, 20, 30, None]


def test_an_installation_keeps_its_data_in_one_folder(tmp_path: Path) -> None:
    found = read(tmp_path, "PIHERDER_BACKUPS", "PIHERDER_LOGS", "PIHERDER_RUNTIME", "DATABASES")
    assert found["PIHERDER_BACKUPS"] == str(tmp_path / "backups")
    assert found["PIHERDER_LOGS"] == str(tmp_path / "job-logs")
    assert found["PIHERDER_RUNTIME"] == str(tmp_path / "run")
    assert found["DATABASES"]["default"]["NAME"] == str(tmp_path / "db.sqlite3")


def test_every_start_reads_the_same_secrets(tmp_path: Path) -> None:
    names = ("SECRET_KEY", "PIHERDER_MASTER_KEYS", "PIHERDER_INSTALL_ID")
    first = read(tmp_path, *names)
    assert read(tmp_path, *names) == first
    assert len({first["SECRET_KEY"], *first["PIHERDER_MASTER_KEYS"], first["PIHERDER_INSTALL_ID"]}) == 3


def test_given_secrets_leave_no_file(tmp_path: Path) -> None:
    secret = "k8Zr2mVx7Lq0Tn5Bd9Wf3Hs6Jy1Pc4Ga"
    given = {"PIHERDER_SECRET_KEY": secret, "PIHERDER_MASTER_KEYS": f"{secret},old", "PIHERDER_INSTALL_ID": "i"}
    assert read(tmp_path, "PIHERDER_MASTER_KEYS", **given)["PIHERDER_MASTER_KEYS"] == [secret, "old"]
    assert list(tmp_path.iterdir()) == []


def test_two_processes_that_start_at_once_agree_on_the_secrets(tmp_path: Path) -> None:
    given = {**env.child_environment(), "PIHERDER_DATA": str(tmp_path / "new")}
    code = "from piherder import env; print(env.secret_file('master.key'))"
    command = [sys.executable, "-c", code]
    racers = [subprocess.Popen(command, env=given, cwd=CLONE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    told = {racer.communicate(timeout=60)[0] for racer in racers}
    assert len(told) == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["master.key"]


@pytest.mark.parametrize(
    ("url", "name", "origin", "secure", "hsts"),
    [
        ("https://herd.example/", "herd.example", "https://herd.example", True, 31_536_000),
        ("http://Pi.lan:8000", "pi.lan", "http://pi.lan:8000", False, 0),
        ("https://[2001:0DB8:0::7]:443", "[2001:db8::7]", "https://[2001:db8::7]", True, 31_536_000),
    ],
)
def test_names_origins_and_cookies_follow_from_one_address(
    tmp_path: Path, url: str, name: str, origin: str, secure: bool, hsts: int
) -> None:
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS")
    found = read(tmp_path, "ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", *names, PIHERDER_URL=url, PIHERDER_HOSTS="pi, pj")
    assert found.pop("ALLOWED_HOSTS") == ["localhost", "127.0.0.1", "[::1]", "pi", "pj", name]
    assert found.pop("CSRF_TRUSTED_ORIGINS") == [origin]
    assert list(found.values()) == [secure, secure, hsts]


def test_cookies_have_names_of_their_own_with_tls_and_without(tmp_path: Path) -> None:
    names, urls = ("SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME"), ("https://pi.lan", "http://pi.lan:8000")
    found = {name for url in urls for name in read(tmp_path, *names, PIHERDER_URL=url).values()}
    assert len(found - {"sessionid", "csrftoken"}) == 4


def test_further_names_count_however_they_are_written(tmp_path: Path) -> None:
    given = "pi.lan:8000 http://PJ.lan [2001:db8::7]:8000 2001:0db8::8 [2001:db8::9] .example.org * a_b [["
    found = read(tmp_path, "ALLOWED_HOSTS", PIHERDER_HOSTS=given)["ALLOWED_HOSTS"][3:]
    addresses = ["[2001:db8::7]", "[2001:db8::8]", "[2001:db8::9]"]
    assert found == ["pi.lan", "pj.lan", *addresses, ".example.org", "*", "a_b", "[["]


def test_debug_is_off_unless_asked_for(tmp_path: Path) -> None:
    assert read(tmp_path, "DEBUG")["DEBUG"] is False
    assert read(tmp_path, "DEBUG", PIHERDER_DEBUG="1")["DEBUG"] is True


def test_a_longer_heartbeat_stretches_the_silence_with_it(tmp_path: Path) -> None:
    assert read(tmp_path, "PIHERDER_SILENCE_SEC", PIHERDER_BEAT_SEC="10")["PIHERDER_SILENCE_SEC"] == 40


def test_postgresql_gets_its_options_beside_ours(tmp_path: Path) -> None:
    url = "postgresql://pi:p%40ss@db:5433/herd?sslmode=require"
    found = read(tmp_path, "DATABASES", DATABASE_URL=url)["DATABASES"]["default"]
    assert (found["ENGINE"], found["PASSWORD"], found["PORT"]) == ("django.db.backends.postgresql", "p@ss", "5433")
    assert found["OPTIONS"] == {"connect_timeout": 5, "tcp_user_timeout": 10_000, "sslmode": "require"}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PIHERDER_SERVER_LOCK_TTL", "5", "PIHERDER_SERVER_LOCK_TTL must lie between 6 and 86400, not 5."),
        ("PIHERDER_EXCLUSIVE_HOST_WAIT_SEC", "29", "PIHERDER_EXCLUSIVE_HOST_WAIT_SEC must lie between 30 and 86400"),
        ("PIHERDER_SILENCE_SEC", "14", "PIHERDER_SILENCE_SEC must lie between 15 and 600, not 14."),
        ("CELERY_CONCURRENCY", "two", "CELERY_CONCURRENCY must be a whole number, not 'two'."),
        ("PIHERDER_CLOCK_TRUSTED", "ture", "PIHERDER_CLOCK_TRUSTED must be yes or no, not 'ture'."),
        ("PIHERDER_URL", "herd.example", "PIHERDER_URL must be an address such as https://herder.example.org or"),
        ("PIHERDER_URL", "https://a/path", "PIHERDER_URL must be an address such as"),
        ("PIHERDER_URL", "http://my_pi:8000", "PIHERDER_URL must be an address such as"),
        ("PIHERDER_URL", "https://a:x", "PIHERDER_URL must be an address such as"),
        ("PIHERDER_URL", "https://me@a", "PIHERDER_URL must be an address such as"),
        ("PIHERDER_TRUSTED_PROXIES", "nginx", "PIHERDER_TRUSTED_PROXIES must hold addresses or networks such as"),
        ("PIHERDER_LOG_LEVEL", "loud", "PIHERDER_LOG_LEVEL must be one of DEBUG"),
        ("TZ", "Mars/Olympus", "TZ must be a time zone such as Europe/Berlin"),
        ("DATABASE_URL", "mysql://x/y", "DATABASE_URL must start with postgresql://"),
    ],
)
def test_a_bad_value_is_one_sentence_and_no_traceback(tmp_path: Path, name: str, value: str, sentence: str) -> None:
    done = fresh(tmp_path, ["manage.py", "check"], **{name: value})
    assert done.returncode == 1
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize("command", [["manage.py", "check"], ["-m", "celery", "-A", "piherder", "beat"]])
def test_a_settings_file_that_is_gone_is_one_sentence_and_no_traceback(tmp_path: Path, command: list[str]) -> None:
    done = fresh(tmp_path, command, PIHERDER_ENV_FILE=str(tmp_path / "gone"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"The settings in {tmp_path}/gone cannot be read: No such file or directory.\n"
