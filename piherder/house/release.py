"""The program code of an installation: releases beside each other below /opt/piherder, one of them current."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from piherder.house.folder import CLONE, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from piherder.house.layout import Layout

# What runs, and what its owner reads; tests and benchmarks stay in the clone.
CONTENT = (
    *("piherder", "stacks", "hosts", "jobs", "docker"),
    *("manage.py", "herder", "Makefile", "requirements.txt", "pyproject.toml", "README.md", "CHANGELOG.md"),
)
LEFT_OUT = ("docker/.env", "docker/wheels")  # the owner's own: secrets, and packages to build an image from
MARK = ".installed"  # lets `herder` know whom to become and which settings to read: two lines
COMPLETE = ".complete"


@dataclass(frozen=True, slots=True)
class File:
    """One file of a release: its name below the clone and whether it can be executed."""

    name: str
    executable: bool


def files(clone: Path = CLONE) -> list[File]:
    """Every file that an installation consists of, by name."""
    return sorted(_files(clone), key=lambda each: each.name)


def _files(clone: Path) -> Iterator[File]:
    for top in map(clone.joinpath, CONTENT):
        for path in [top] if top.is_file() else top.rglob("*"):
            name = str(path.relative_to(clone))
            if path.is_file() and is_ours(name):
                yield File(name, os.access(path, os.X_OK))


def is_ours(name: str) -> bool:
    """False for what Python and the owner of a clone put beside our files."""
    made = "__pycache__" in name.split("/") or name.endswith(".pyc")
    return not made and not any(name == each or name.startswith(f"{each}/") for each in LEFT_OUT)


def version(clone: Path = CLONE) -> str:
    """The version that pyproject.toml names. Raises Refused when it names none."""
    path = clone / "pyproject.toml"
    found = re.search(
        r'^version = "([0-9A-Za-z.+-]+)"$', path.read_text(encoding="utf-8") if path.is_file() else "", re.M
    )
    if not found:
        raise Refused(f"{clone} is no complete copy of PiHerder: pyproject.toml names no version.")
    return found[1]


def name(clone: Path = CLONE) -> str:
    """`<version>-<digest of the files>`: the same files make the same release, whatever their commit is called."""
    digest = hashlib.sha256()
    for each in files(clone):
        content = hashlib.sha256((clone / each.name).read_bytes()).hexdigest()
        digest.update(f"{each.name} {each.executable} {content}\n".encode())
    return f"{version(clone)}-{digest.hexdigest()[:10]}"


def put(layout: Layout, user: str, clone: Path = CLONE) -> Path:
    """Copies the clone's code to its place, readable by everybody whatever the umask; returns the release's folder.

    A copy that is there is made complete again; `.venv` in it stays. Raises OSError.
    """
    target = layout.code / name(clone)
    for each in files(clone):
        path = target / each.name
        _folders(path.parent, layout.code)
        draft = path.with_name(f".{path.name}.new")
        shutil.copyfile(clone / each.name, draft)
        draft.chmod(0o755 if each.executable else 0o644)
        draft.replace(path)
    write(target / MARK, f"{user}\n{layout.settings}\n", 0o644)
    return target


def _folders(path: Path, top: Path) -> None:
    if path != top.parent:
        _folders(path.parent, top)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)


def write(path: Path, text: str, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Replaces a file at once, synced, with this mode, and where given this user and group id."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        if owner:
            os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)
        handle.write(text)
        handle.flush()
        os.fsync(descriptor)
    draft.replace(path)


def switch(layout: Layout, release: Path) -> None:
    """Makes `release` the current one; there is a current one at every instant."""
    draft = layout.code / ".current.new"
    draft.unlink(missing_ok=True)
    draft.symlink_to(release.name)
    draft.replace(layout.current)


def finish(release: Path) -> None:
    """Notes that a release can run: code, packages and all."""
    write(release / COMPLETE, "", 0o644)


def is_complete(release: Path) -> bool:
    """True for a release whose set-up came to its end."""
    return (release / COMPLETE).is_file()


def installed(layout: Layout) -> list[Path]:
    """The releases that lie there, in no order that means anything."""
    return [path.parent for path in layout.code.glob(f"*/{MARK}") if not path.parent.is_symlink()]


def forget_others(layout: Layout, keep: set[Path]) -> list[str]:
    """Removes releases that are neither current nor in `keep`; returns their names."""
    old = [path for path in installed(layout) if path not in keep and path != layout.release]
    for path in old:
        shutil.rmtree(path)
    return [path.name for path in old]


def note(path: Path, words: dict[str, object]) -> None:
    """Writes a JSON document that only root changes."""
    write(path, json.dumps(words, indent=2) + "\n", 0o644)
