"""PiHerder as services of a lab host: brought as a clone, installed from wheels, driven as a person would."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from piherder.house.folder import CLONE
from tests.lab.wheels import wheels

if TYPE_CHECKING:
    from typing import Any

    from tests.lab.host import Completed, LabHost

NOT_INSTALLED = ("./.venv", "./.git", "__pycache__", "./.*_cache", "./build")
SERVICES = ("redis", "web", "worker", "beat")
UP_SECONDS = 120
COPY = "/root/piherder"
GOOD = """\
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("jobs", "{last}")]
    operations = [migrations.RunSQL("CREATE TABLE proof_of_upgrade (id integer)", migrations.RunSQL.noop)]
"""


class House:
    """A host on which PiHerder is, was, or will be installed."""

    def __init__(self, host: LabHost) -> None:
        self.host = host
        self.said = ""  # by the installation

    def bring(self) -> None:
        """A fresh clone, and the packages of its requirements, so that no package index is needed."""
        self.host.run(f"rm -rf {COPY}")
        self.host.copy_in(CLONE, COPY, exclude=NOT_INSTALLED)
        self.host.copy_in(wheels(), "/wheels")

    def make(self, target: str, arguments: str = "", check: bool = True) -> Completed:
        pip = "export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_CONFIG_FILE=/dev/null"
        script = f"{pip}; make -C {COPY} --no-print-directory {target} ARGS={shlex.quote(arguments)}"
        return self.host.run(script, check=check, seconds=400)

    def herder(self, *words: str, check: bool = True) -> Completed:
        return self.host.run(f"herder {shlex.join(words)}", check=check)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.herder("status", "--json", check=False).stdout)
        return found

    def is_well(self) -> bool:
        return bool(self.status()["well"])

    def pid(self, part: str) -> int:
        return int(self.host.run(f"systemctl show --value -p MainPID piherder-{part}").stdout)

    def tables(self) -> str:
        ask = "SELECT name FROM sqlite_master"
        code = f"import sqlite3; print([*sqlite3.connect('/var/lib/piherder/db.sqlite3').execute('{ask}')])"
        return self.host.run(f"python3 -c {shlex.quote(code)}").stdout

    def change_clone(self, version: str, migration: str = "") -> None:
        """Make the clone another version, where wanted with one migration more."""
        self.bring()
        last = sorted(path.stem for path in (CLONE / "jobs/migrations").glob("0*.py"))[-1]
        self.host.run(f"sed -i 's/^version = .*/version = \"{version}\"/' {COPY}/pyproject.toml")
        if migration:
            path = f"{COPY}/jobs/migrations/9999_proof.py"
            self.host.run(f"cat > {path} <<'END'\n{migration.format(last=last)}END")

    def release(self) -> str:
        return self.host.run("basename $(readlink -f /opt/piherder/current)").stdout.strip()

    def add_itself(self) -> None:
        """The host becomes one of its own herd, over its own sshd."""
        self.host.run("mkdir -p /srv/site/shared && chmod 2775 /srv/site/shared && echo words > /srv/site/page")
        self.host.run("chown 1234:2345 /srv/site/page && install -m 6755 /bin/true /srv/site/tool")
        words = "self --address 127.0.0.1 --user root --generate-key --source /srv/site --trust-first-key --no-schedule"
        told = self.host.run(f"herder add_host {words} 2>&1").stdout
        self.host.add_key(next(line for line in told.splitlines() if line.startswith("ssh-ed25519 ")))


def leave(host: LabHost) -> None:
    """End the host; its files, a minute's work with several releases in them, go with the lab."""
    host.engine.docker("kill", host.name)
