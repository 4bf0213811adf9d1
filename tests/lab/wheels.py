"""Wheels of an installation's requirements, fetched with this machine's own pip and kept in the cache."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from tests.lab.base import cache, call, locked

CLONE = Path(__file__).resolve().parents[2]
HOSTS_PYTHON = "3.13"  # of Debian 13


def wheels(python: str = HOSTS_PYTHON) -> Path:
    """Folder with the wheels of requirements.txt for a host's Python; hosts then need no package index.

    Raises LabError with what pip said.
    """
    requirements = CLONE / "requirements.txt"
    mark = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = cache() / f"wheels-{python}-{mark}"
    with locked("wheels"):
        if not folder.exists():
            fetch(requirements, python, folder)
    return folder


def fetch(requirements: Path, python: str, folder: Path) -> None:
    """Download into a draft and put it in place at once."""
    draft = Path(tempfile.mkdtemp(prefix="build-wheels-", dir=cache()))
    try:
        options = ["--quiet", "--dest", str(draft), "--python-version", python, "--only-binary=:all:"]
        call(sys.executable, "-m", "pip", "download", *options, "-r", str(requirements), seconds=600)
        draft.chmod(0o755)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
