"""What an installation is besides its database: the keys it signs and seals with, its id, its version."""

from __future__ import annotations

import os
import subprocess
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from hosts.models import Generation, Host
from hosts.store.root import sync_folder
from hosts.vault import fingerprint_of
from jobs.models import Job
from piherder import env
from piherder.archive.shelf import PARTIAL, private_file

if TYPE_CHECKING:
    from pathlib import Path

# The variables that stand in for the files, see settings.
VARIABLES = {
    "django.key": "PIHERDER_SECRET_KEY",
    "install.id": "PIHERDER_INSTALL_ID",
    "master.key": "PIHERDER_MASTER_KEYS",
}


@dataclass(frozen=True, slots=True)
class Placed:
    """A site file that was written; `aside` is where the one that was there lies now, None when none was."""

    path: Path
    aside: Path | None


def values(keys: tuple[str, ...]) -> dict[str, str]:
    """The content of the site files as they are in effect, by name; with these master keys, if any are given."""
    found = {"django.key": settings.SECRET_KEY, "install.id": settings.PIHERDER_INSTALL_ID}
    return {**found, "master.key": key_text(keys)} if keys else found


def master_keys() -> tuple[str, ...]:
    """The master keys in effect."""
    return tuple(settings.PIHERDER_MASTER_KEYS)


def key_text(keys: tuple[str, ...]) -> str:
    """Master keys as their file holds them."""
    return "\n".join(keys)


def fingerprints(keys: tuple[str, ...]) -> list[str]:
    """A short name for each key, from which no way leads back."""
    return [fingerprint_of(key) for key in keys]


def key_place() -> str:
    """Where a person finds the master key."""
    variable = VARIABLES["master.key"]
    return variable if env.words(variable) else str(settings.DATA / "master.key")


def version() -> str:
    """PiHerder's version; "0" where the file that says it was left out."""
    try:
        data = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))
    except OSError:
        return "0"
    return str(data["project"]["version"])


def commit() -> str:
    """The commit that runs, "" where there is no clone or no git."""
    try:
        argv = ["git", "-C", str(settings.BASE_DIR), "rev-parse", "HEAD"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def migrations() -> dict[str, str]:
    """The last migration that was applied of each app."""
    return dict(sorted(MigrationRecorder(connection).applied_migrations()))


def counts() -> dict[str, int]:
    """What a person recognises an installation by."""
    rows = {"hosts": Host.herd, "generations": Generation.objects, "jobs": Job.objects}
    return {name: manager.count() for name, manager in rows.items()}


def put(name: str, content: str, moment: str) -> Placed | None:
    """Write a site file, keeping another one aside as `<name>.before-<moment>`; None when it is there already.

    Raises OSError.
    """
    path = settings.DATA / name
    if holds(name, content):
        return None
    aside = path.with_name(f"{name}.before-{moment}") if path.exists() else None
    draft = path.with_name(f"{PARTIAL}{name}")
    draft.unlink(missing_ok=True)
    with private_file(draft) as handle:
        handle.write(content.strip().encode() + b"\n")
        handle.flush()
        os.fsync(handle.fileno())
    give(draft)
    if aside:
        aside.unlink(missing_ok=True)
        os.link(path, aside)
    draft.rename(path)
    sync_folder(path.parent)
    return Placed(path, aside)


def holds(name: str, content: str) -> bool:
    """Whether a site file holds this already. Raises OSError."""
    path: Path = settings.DATA / name
    return path.exists() and path.read_bytes().split() == content.encode().split()


def give(path: Path) -> None:
    """Hand what root made to the owner of the data folder, as whom the services run. Raises OSError."""
    owner = settings.DATA.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.chown(path, owner.st_uid, owner.st_gid)
