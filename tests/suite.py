"""Runs the tests on servers that only they own: PostgreSQL first, then SQLite, each with a private Redis.

`python -m tests.suite [--only postgresql|sqlite] [pytest's options]`, or `--lab` for those on real hosts and engines
(tests/lab), or `--manage COMMAND` for one management command on an empty scratch installation.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from piherder import env
from piherder.house.postgres import PrivatePostgres
from piherder.house.servers import PrivateRedis

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE = Path(__file__).resolve().parents[1]
NOTHING_COLLECTED = 5
LAB = "tests/lab"
# Each process has a lab of its own and takes whole files; hosts that boot and install mostly wait, so four share two
# cores well. Each wait in there has a bound of its own.
LAB_OPTIONS = ("-n", "4", "--dist", "loadfile", "--timeout=900")
# Many tests wait for a process to notice a fault: three share two cores well, and who is done takes over from others.
SPREAD = ("-n", "3", "--dist", "worksteal")
# What knows no database, or starts servers of its own with one that it chooses: once is enough.
ONCE = (
    "--ignore=tests/house",
    "--ignore=tests/bench",
    "--ignore=tests/hosts/rsync",
    "--ignore=tests/hosts/store",
    "--ignore=tests/hosts/facts",
    "--ignore=tests/piherder/demo",
    "--ignore-glob=tests/hosts/test_ssh*",
    "--ignore-glob=tests/hosts/test_*key*",
)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one run, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="piherder-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """DATABASE_URL of a database of this kind."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'db.sqlite3'}"
        return
    server = PrivatePostgres()
    try:
        server.start()
        yield server.url
    finally:
        server.close()


def run(kind: str, folder: Path, command: list[str]) -> int:
    """Exit code of a command of our Python with a database of this kind and a private Redis."""
    redis = PrivateRedis(folder / "redis")
    try:
        redis.start()
        with database(kind, folder) as url:
            environment = env.child_environment(
                DATABASE_URL=url, REDIS_URL=redis.url, PIHERDER_DATA=str(folder), PIHERDER_TEST_KINDS="1"
            )
            return subprocess.run([sys.executable, *command], env=environment, cwd=CLONE).returncode
    finally:
        redis.close()


def test(kind: str, options: list[str]) -> bool:
    """True when every test passed on this database; pytest's own last line stands last."""
    started = time.monotonic()
    print(f"== tests on {kind}", flush=True)
    with scratch() as folder:
        named = any(option.startswith("tests") for option in options)
        once = ONCE if kind == "sqlite" and not named else ()
        code = run(kind, folder, ["-m", "pytest", "-q", *SPREAD, f"--ignore={LAB}", *once, *options])
    print(f"== tests on {kind}: {'passed' if not code else 'FAILED'}, {time.monotonic() - started:.0f} s", flush=True)
    return code == 0 or (code == NOTHING_COLLECTED and kind == "sqlite")


def lab(options: list[str]) -> int:
    """Exit code of the tests on real hosts; those that `options` name, or all of them."""
    named = any(option.startswith("tests") for option in options)
    with scratch() as folder:
        return run("sqlite", folder, ["-m", "pytest", "-q", *LAB_OPTIONS, *([] if named else [LAB]), *options])


def manage(command: list[str]) -> int:
    """Exit code of one management command on an empty scratch installation."""
    with scratch() as folder:
        return run("sqlite", folder, [*(f"-W{w}" for w in sys.warnoptions), "manage.py", *command])


def main(arguments: list[str]) -> int:
    """Exit code: 0 when all passed."""
    os.umask(0o077)
    if arguments[:1] == ["--manage"]:
        return manage(arguments[1:])
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--only", choices=("postgresql", "sqlite"))
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--lab", action="store_true")
    found, options = parser.parse_known_args(arguments)
    if found.lab:
        return lab(options)
    kinds = [found.only] if found.only else ["postgresql", "sqlite"]
    results = [test(kind, options) for kind in kinds]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
