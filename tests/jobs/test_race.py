"""P1 for real: 20 processes race for the lanes of mixed kinds on two hosts, 50 rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection

from piherder import env
from tests.factories import make_host

CLONE = Path(__file__).resolve().parents[2]
PROCESSES, ROUNDS = 20, 50


def database_url() -> str:
    """DATABASE_URL of the test's own database."""
    found = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{found['NAME']}"
    who = f"{quote(found['USER'])}:{quote(found['PASSWORD'])}"
    port = f":{found['PORT']}" if found["PORT"] else ""
    return f"postgresql://{who}@{quote(found['HOST'], safe='')}{port}/{found['NAME']}"


@pytest.mark.django_db(transaction=True)
def test_no_two_of_twenty_processes_hold_one_lane() -> None:
    hosts = [str(make_host().pk) for _ in range(2)]
    command = [sys.executable, "-m", "tests.jobs.racer", str(PROCESSES), str(ROUNDS), *hosts]
    environment = env.child_environment(DATABASE_URL=database_url(), DJANGO_SETTINGS_MODULE="piherder.settings")
    done = subprocess.run(command, env=environment, cwd=CLONE, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["broken"] == []
    assert sum(found["answers"].values()) == PROCESSES * ROUNDS
    assert found["answers"].get("unavailable", 0) == 0
    assert found["answers"]["inserted"] >= ROUNDS
