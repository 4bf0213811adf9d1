"""What a process does not load, it need not hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from piherder import env

CLONE = Path(__file__).resolve().parents[2]
WEB = "import piherder.wsgi; from django.urls import get_resolver; get_resolver().url_patterns"
BEAT = "import django; django.setup(); import piherder.celery, jobs.beat"


@pytest.mark.parametrize("start", [WEB, BEAT])
def test_paramiko_is_loaded_by_those_who_log_in_alone(start: str) -> None:
    script = f"import sys\n{start}\nprint(sorted(name for name in sys.modules if name == 'paramiko'))"
    argv = [sys.executable, "-c", script]
    done = subprocess.run(
        argv, cwd=CLONE, env=env.child_environment(), capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
