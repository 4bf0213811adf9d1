"""An installation elsewhere: a data folder and a database of its own, and our commands in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from django.conf import settings as live
from django.db import connection

from piherder import env
from piherder.archive import postgres
from piherder.house.folder import CLONE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.piherder.archive.conftest import Herder

SQLITE = connection.vendor == "sqlite"
HOSTS = """
from hosts.models import Host
from hosts.vault import unseal
host = Host.objects.get(name="pi1")
answer = [unseal(host.credential.private_key_sealed), unseal(host.sudo_password_sealed), host.keys.get().public]
"""
ASK = "import django, json, sys\ndjango.setup()\n{code}\nprint(json.dumps(answer, default=str))"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A machine that knows only these variables."""

    data: Path
    url: str

    def run(self, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """A process of ours."""
        given = {name: value for name, value in env.child_environment().items() if name in {"PATH", "HOME", "LANG"}}
        given |= {"PIHERDER_DATA": str(self.data), "DATABASE_URL": self.url, "PIHERDER_BEAT_SEC": "1"}
        given |= {"DJANGO_SETTINGS_MODULE": "piherder.settings", **changes}
        return subprocess.run(
            [sys.executable, *command], env=given, cwd=CLONE, capture_output=True, text=True, timeout=100, check=False
        )

    def herder(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """`./herder WORDS…`."""
        return self.run("manage.py", *words, **changes)

    def restore(self, archive: Path, *words: str, **changes: str) -> str:
        """A restore that must work; returns what it said."""
        done = self.herder("herder_restore", str(archive), *words, **changes)
        assert (done.returncode, done.stderr) == (0, ""), (done.stdout, done.stderr)
        return done.stdout

    def refused(self, archive: Path, *words: str, **changes: str) -> str:
        """The one sentence with which a restore is refused."""
        done = self.herder("herder_restore", str(archive), *words, **changes)
        assert done.returncode in {1, 2, 3}, (done.stdout, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.strip()

    def ask(self, code: str, **changes: str) -> Any:
        """What Python code there leaves in `answer`."""
        done = self.run("-c", ASK.format(code=code), **changes)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def new_database() -> str:
    """DATABASE_URL of an empty database on the server of the tests."""
    name = f"fresh_{uuid.uuid4().hex[:12]}"
    sql(f"CREATE DATABASE {name}")
    found = connection.settings_dict
    return f"postgresql://{found['USER']}:{found['PASSWORD']}@{found['HOST']}:{found['PORT']}/{name}"


def drop_database(url: str) -> None:
    """Remove it again."""
    sql(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")


def sql(statement: str) -> None:
    """A statement outside any transaction, on the server of the tests."""
    place = postgres.address(connection.settings_dict)
    with psycopg.connect(place.conninfo, autocommit=True, password=place.secrets["PGPASSWORD"]) as server:
        server.execute(statement.encode())


def archive_of(herder: Herder) -> Path:
    """A new archive."""
    job = herder.back_up()
    assert job.status == "succeeded", job.error
    return herder.archives()[0].path


def own_id(elsewhere: Elsewhere) -> str:
    """The id of the installation there."""
    return (elsewhere.data / "install.id").read_text().strip()


def key_file(herder: Herder, text: str = "") -> Path:
    """The master key as a person kept it."""
    path = herder.data / "kept.key"
    path.write_text((text or "\n".join(live.PIHERDER_MASTER_KEYS)) + "\n")
    return path


def hold_of(elsewhere: Elsewhere) -> str:
    """Why the herd is held in the PostgreSQL database there, as a herder on another machine would find it."""
    with psycopg.connect(elsewhere.url) as session:
        found = session.execute("SELECT hold_reason FROM jobs_enginesettings WHERE held_at IS NOT NULL").fetchone()
    return str(found[0]) if found else ""
