"""Where a case runs: a folder and servers of its own, and a process of its own that is told of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from bench.figures import Result
from piherder import env
from piherder.house.folder import CLONE
from piherder.house.postgres import PrivatePostgres
from piherder.house.servers import PrivateRedis

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 3600.0  # seconds that one case may take


class CaseFailed(Exception):
    """A case did not come to its end; the text names it."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one case, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="piherder-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def servers(folder: Path) -> Iterator[dict[str, str]]:
    """A PostgreSQL that keeps what it commits, and a Redis; yields the variables that name them."""
    with ExitStack() as stack:
        redis = PrivateRedis(folder / "redis")
        stack.callback(redis.close)
        redis.start()
        postgres = PrivatePostgres(safe=True)
        stack.callback(postgres.close)
        postgres.start()
        yield {"DATABASE_URL": postgres.url, "REDIS_URL": redis.url}


@contextmanager
def embedded(folder: Path) -> Iterator[dict[str, str]]:
    """The variables of the stack that `make run` starts in this folder; the case itself starts it."""
    url = f"sqlite:///{quote(str(folder / 'db.sqlite3'))}"
    yield {"DATABASE_URL": url, "REDIS_URL": PrivateRedis(folder / "redis").url}


def environment(folder: Path, **changes: str) -> dict[str, str]:
    """Environment of a case and of everything it starts: the product's own settings and times."""
    values = {"DJANGO_SETTINGS_MODULE": "piherder.settings", "PIHERDER_DATA": str(folder), "PIHERDER_TEST_KINDS": "1"}
    return env.child_environment(**values, PYTHONUNBUFFERED="1", **changes)


def measure(name: str, is_embedded: bool, quick: bool) -> list[Result]:
    """Results of one case, run in a process of its own. Raises CaseFailed."""
    with scratch() as folder, (embedded if is_embedded else servers)(folder) as urls:
        answer = folder / "results.json"
        command = [sys.executable, "-m", "bench.one", name, str(answer), *(["--quick"] if quick else [])]
        # The kernel ends the case, and so all that it started, with this process.
        argv = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        done = subprocess.run(argv, env=environment(folder, **urls), cwd=CLONE, timeout=LIMIT)
        if done.returncode or not answer.exists():
            raise CaseFailed(f"The case {name} ended with exit code {done.returncode}.")
        return [Result.from_json(item) for item in json.loads(answer.read_text())]
