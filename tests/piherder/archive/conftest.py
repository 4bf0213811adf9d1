"""An installation whose archives and data lie in folders of the test, and jobs carried out in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings as live

from jobs.services import request_job
from piherder.archive import shelf
from piherder.archive.overview import KIND
from tests.hosts.families.conftest import ASKER, carry_out, full_disk, this_worker

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import Settings

    from jobs.models import Job
    from piherder.archive.shelf import Archive

__all__ = ("full_disk", "this_worker")


@dataclass(frozen=True, slots=True)
class Herder:
    """This installation's own backup."""

    data: Path
    folder: Path
    settings: Settings

    def request(self, **params: Any) -> Job:
        """A job, not yet carried out."""
        return request_job(KIND, params=params, asker=ASKER).job

    def back_up(self, **params: Any) -> Job:
        """A job, carried out."""
        return carry_out(self.request(**params))

    def archives(self) -> list[Archive]:
        """Newest first."""
        return shelf.archives(self.folder)

    def leftovers(self) -> list[str]:
        """Names of what is unfinished, anywhere."""
        return [path.name for place in (self.data, self.folder) for path in place.glob(f"{shelf.PARTIAL}*")]

    def encrypt(self, passphrase: str = "correct horse") -> Path:
        """Set a passphrase; returns its file."""
        path = self.data / "passphrase"
        path.write_text(passphrase + "\n")
        path.chmod(0o600)
        self.settings.PIHERDER_ARCHIVE_PASSPHRASE_FILE = path
        return path


Stop = Callable[[], None]


@pytest.fixture
def herder(this_worker: None, tmp_path: Path, settings: Settings) -> Herder:
    """An installation in `tmp_path`."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    settings.DATA = data
    settings.PIHERDER_ARCHIVES = tmp_path / "archives"
    settings.PIHERDER_ARCHIVE_PASSPHRASE_FILE = None
    assert data == live.DATA
    return Herder(data, tmp_path / "archives", settings)
