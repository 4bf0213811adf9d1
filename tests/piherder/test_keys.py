"""Nothing starts with weak keys, or without the key that the database's secrets were sealed with."""

from __future__ import annotations

import secrets
import socket
import sqlite3
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from django.apps import apps
from django.db import connection

from hosts.vault import seal
from piherder import keys
from piherder.env import BadEnvironment
from piherder.key_file import KeyFile
from piherder.keys import SEALED, holds_secrets, is_weak, sealed_columns
from tests.factories import make_credential, make_host
from tests.piherder.test_settings_read import fresh

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from pytest_django.fixtures import Settings

STRONG = "k8Zr2mVx7Lq0Tn5Bd9Wf3Hs6Jy1Pc4Ga"
LINE = 'python3 -c "import secrets; print(secrets.token_urlsafe(48))"'
ADD_KEY = """
import django; django.setup()
from hosts.models import Credential
from hosts.vault import seal
Credential.objects.create(name="x", public_key="p", fingerprint="f", private_key_sealed=seal("S3cr3t"))
"""
# Every process of an installation, and the exit code with which it refuses.
PROCESSES = {
    "web": (["-m", "gunicorn", "piherder.wsgi:application", "--no-control-socket", "--bind", "127.0.0.1:{port}"], 3),
    "worker": (["-m", "celery", "-A", "piherder", "worker"], 1),
    "beat": (["-m", "celery", "-A", "piherder", "beat", "--pidfile="], 1),
    "command": (["manage.py", "hosts"], 1),
    "migrate": (["manage.py", "migrate"], 1),
    "shell": (["manage.py", "shell", "-c", "print('in')"], 1),
}


def start(data: Path, name: str, **changes: str) -> CompletedProcess[str]:
    """One process of the installation, which must end by itself."""
    command, code = PROCESSES[name]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    done = fresh(data, [word.format(port=port) for word in command], **changes)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    return done


def said(done: CompletedProcess[str]) -> str:
    """The one sentence of ours among what gunicorn logs."""
    [line] = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    return line


@pytest.fixture(scope="module")
def sealed_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database that holds a secret."""
    data = tmp_path_factory.mktemp("data")
    assert fresh(data, ["manage.py", "migrate", "--verbosity", "0"]).returncode == 0
    assert fresh(data, ["-c", ADD_KEY]).returncode == 0
    with sqlite3.connect(data / "db.sqlite3") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return (data / "db.sqlite3").read_bytes()


@pytest.fixture
def orphan(sealed_database: bytes, tmp_path: Path) -> Path:
    """A data folder whose database holds a secret and whose key is gone."""
    (tmp_path / "db.sqlite3").write_bytes(sealed_database)
    return tmp_path


# --- a key that is gone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROCESSES)
def test_without_its_key_nothing_starts_on_a_database_with_secrets(orphan: Path, name: str) -> None:  # case E01
    sentence = said(start(orphan, name))
    assert sentence.startswith(f"{orphan}/master.key is missing and the database holds secrets that only it opens: ")
    assert f'(umask 077; {LINE} > "{orphan}/master.key")' in sentence
    assert not (orphan / "master.key").exists()


def test_the_line_that_was_said_makes_a_key_to_go_on_with(orphan: Path) -> None:
    line = said(start(orphan, "command")).split("`")[1]
    subprocess.run(line, shell=True, check=True, timeout=60)
    assert stat.S_IMODE((orphan / "master.key").stat().st_mode) == 0o600
    assert fresh(orphan, ["manage.py", "hosts"]).returncode == 0


def test_the_restore_may_start_because_it_brings_the_key(orphan: Path) -> None:
    done = fresh(orphan, ["manage.py", "herder_restore", "--help"])
    assert "master.key is missing" not in done.stderr
    assert not (orphan / "master.key").exists()


@pytest.mark.parametrize("command", [["manage.py", "check"], ["manage.py", "migrate", "--verbosity", "0"]])
def test_a_fresh_installation_makes_its_key(tmp_path: Path, command: list[str]) -> None:
    assert fresh(tmp_path, command).returncode == 0
    assert stat.S_IMODE((tmp_path / "master.key").stat().st_mode) == 0o600
    assert not is_weak((tmp_path / "master.key").read_text().strip())


def test_a_database_without_secrets_lets_a_key_be_made(orphan: Path) -> None:
    with sqlite3.connect(orphan / "db.sqlite3") as database:
        database.execute("UPDATE hosts_credential SET private_key_sealed = ''")
    database.close()
    assert fresh(orphan, ["manage.py", "hosts"]).returncode == 0
    assert (orphan / "master.key").exists()


def test_a_look_at_a_database_that_is_not_there_makes_none(tmp_path: Path) -> None:
    assert fresh(tmp_path, ["manage.py", "check"]).returncode == 0
    assert not (tmp_path / "db.sqlite3").exists()


def test_a_database_that_does_not_answer_gets_no_new_key(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    code = "import django; django.setup(); from hosts.vault import seal; seal('x')"
    done = fresh(tmp_path, ["-c", code], DATABASE_URL=url)
    assert done.stderr.strip().endswith("There is no master key: put back the master.key of this installation.")
    assert not (tmp_path / "master.key").exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"caf\xe9"])
def test_a_damaged_key_is_never_replaced(orphan: Path, content: bytes) -> None:
    (orphan / "master.key").write_bytes(content)
    assert "master.key is empty or damaged: put back the one from your backup." in said(start(orphan, "command"))
    assert (orphan / "master.key").read_bytes() == content


# --- weak keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["web", "worker", "beat", "command"])
def test_nothing_starts_with_a_weak_master_key(tmp_path: Path, name: str) -> None:
    (tmp_path / "master.key").write_text("changeme\n")
    sentence = said(start(tmp_path, name))
    assert sentence == f"{tmp_path}/master.key is too weak: replace it with `./herder rotate_master_key`."


@pytest.mark.parametrize("name", ["web", "worker", "beat", "command"])
def test_nothing_starts_with_a_weak_secret_key(tmp_path: Path, name: str) -> None:
    sentence = said(start(tmp_path, name, PIHERDER_SECRET_KEY="changeme", PIHERDER_MASTER_KEYS=STRONG))
    assert sentence == f"PIHERDER_SECRET_KEY is too weak: set it to the output of `{LINE}`."


def test_a_weak_key_from_the_environment_is_said_with_its_line(tmp_path: Path) -> None:
    sentence = said(start(tmp_path, "command", PIHERDER_MASTER_KEYS="short"))
    assert sentence.startswith(f"PIHERDER_MASTER_KEYS is too weak: put the output of `{LINE}` and a comma before it")


def test_a_weak_key_file_of_django_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "django.key").write_text("x" * 64)
    assert f'(umask 077; {LINE} > "{tmp_path}/django.key")' in said(start(tmp_path, "command"))


def test_an_old_weak_key_may_stand_behind_a_strong_one(tmp_path: Path) -> None:
    done = fresh(tmp_path, ["manage.py", "check"], PIHERDER_MASTER_KEYS=f"{STRONG},changeme")
    assert done.returncode == 0, done.stderr


def test_the_line_for_a_weak_master_key_works(orphan: Path) -> None:
    (orphan / "master.key").write_text("changeme\n")
    assert fresh(orphan, ["manage.py", "rotate_master_key"]).returncode == 0
    assert fresh(orphan, ["manage.py", "hosts"]).returncode == 0
    assert (orphan / "master.key").read_text().split()[1:] == ["changeme"]


@pytest.mark.parametrize(
    "secret",
    [
        "", "changeme", STRONG[:31], "x" * 64, "abcdefgh" * 8, "0110100110010110100101100110100110010110",
        STRONG + "changeme",
        "django-insecure-" + STRONG, "your-very-long-and-random-master-key", "Replace-This-0123456789-abcdefghijklm",
    ],
)  # fmt: skip
def test_what_is_weak(secret: str) -> None:
    assert is_weak(secret)


def test_what_the_line_makes_is_not_weak() -> None:
    assert not any(is_weak(secrets.token_urlsafe(48)) or is_weak(secrets.token_hex(16)) for _ in range(2000))


# --- which columns are sealed ------------------------------------------------------------------------------------


def test_every_sealed_column_of_every_model_is_declared() -> None:
    there = {
        (model._meta.label, field.name)
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.name.endswith("_sealed")
    }
    assert there == set(SEALED)
    assert [(model._meta.label, column) for model, column in sealed_columns()] == list(SEALED)


@pytest.mark.django_db(transaction=True)
def test_secrets_are_found_in_every_column() -> None:
    assert holds_secrets() is False
    host = make_host(credential=make_credential())
    assert holds_secrets() is True
    host.credential.private_key_sealed = ""
    host.credential.save()
    assert holds_secrets() is False
    host.sudo_password_sealed = seal("S3cr3t")
    host.save()
    assert holds_secrets() is True


@pytest.mark.django_db
def test_a_table_or_a_column_that_is_not_there_yet_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    make_host(credential=make_credential())
    model, column = sealed_columns()[0]
    tables = connection.introspection.table_names()
    assert keys._is_sealed(model, column, tables)
    assert not keys._is_sealed(model, column, [])
    assert not keys._is_sealed(model, "later_sealed", tables)


@pytest.mark.django_db(transaction=True)
def test_a_fresh_key_is_used_at_once(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_DATA", str(tmp_path))
    settings.PIHERDER_MASTER_KEYS = KeyFile(tmp_path / "master.key")
    keys.require()
    assert seal("x")


@pytest.mark.django_db(transaction=True)
def test_only_the_named_commands_may_start_without(settings: Settings, tmp_path: Path) -> None:
    make_host(credential=make_credential())
    settings.PIHERDER_MASTER_KEYS = KeyFile(tmp_path / "master.key")
    keys.require("herder_restore")
    for command in ("rotate_master_key", "status", ""):
        with pytest.raises(BadEnvironment, match=r"master\.key is missing"):
            keys.require(command)
