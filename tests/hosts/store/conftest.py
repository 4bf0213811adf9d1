"""A marked backup root, and a filesystem so small that it fills."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from hosts.store.root import create_marker
from tests.hosts.store.build import INSTALL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A backup root of this installation."""
    folder = tmp_path / "root"
    folder.mkdir()
    create_marker(folder, INSTALL)
    return folder


def mounted(folder: Path, kind: str, options: str) -> Iterator[Path]:
    """A filesystem that is there for one test; only root can mount."""
    if os.geteuid() != 0:
        pytest.skip(f"only root can mount a {kind}")
    folder.mkdir()
    subprocess.run(["mount", "-t", kind, "-o", options, "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A backup root on a disk of 1 MiB."""
    for folder in mounted(tmp_path / "small", "tmpfs", "size=1m"):
        create_marker(folder, INSTALL)
        yield folder


@pytest.fixture
def plain_memory(tmp_path: Path) -> Iterator[Path]:
    """A filesystem without extended attributes and without any number of free bytes."""
    yield from mounted(tmp_path / "ramfs", "ramfs", "mode=0700")
