"""What a process does not load, it need not hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from piherder import env

CLONE = Path(__file__).resolve().parents[2]
WEB = "import piherder.wsgi; from django.urls import get_resolver; get_resolver().url_patterns"
WEB += "; from django.template import engines; engines.all()"
BEAT = "import django; django.setup(); import piherder.celery, jobs.beat"


HEAVY = {
    "paramiko": "19 MB: for those who log in",
    "psycopg": "6 MB: for PostgreSQL",
    "rich": "3 MB: for commands at a terminal",
}


@pytest.mark.parametrize("start", [WEB, BEAT])
def test_what_is_heavy_is_loaded_by_those_who_need_it(start: str) -> None:
    script = f"import sys\n{start}\nprint(sorted({set(HEAVY)} & sys.modules.keys()))"
    argv = [sys.executable, "-c", script]
    on_sqlite = env.child_environment(DATABASE_URL="sqlite:////nowhere/db.sqlite3")
    done = subprocess.run(argv, cwd=CLONE, env=on_sqlite, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
