"""An installation whose archives and data lie in folders of the test, and jobs carried out in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings as live

from hosts.models import HostKey
from hosts.vault import seal
from jobs.services import request_job
from piherder.archive import shelf
from piherder.archive.overview import KIND
from tests.factories import make_credential, make_host, make_job, make_node, running_on
from tests.hosts.families.conftest import ASKER, carry_out, full_disk, this_worker
from tests.piherder.archive.fresh import SQLITE, Elsewhere, drop_database, new_database

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


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    """A machine with nothing on it, and a database of the same engine."""
    url = "" if SQLITE else new_database()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    yield Elsewhere(tmp_path / "elsewhere", url)
    if url:
        drop_database(url)


@pytest.fixture
def herd(herder: Herder) -> Herder:
    """A host with a sealed login and a pinned key, and work under way."""
    credential = make_credential("key")
    credential.private_key_sealed = seal("PRIVATE")
    credential.save()
    host = make_host("pi1", credential=credential, sudo_password_sealed=seal("sudo word"))
    HostKey.objects.create(host=host, key_type="ssh-ed25519", public="AAAAkey", fingerprint="SHA256:x")
    running_on(make_node("w1@pi"), make_job("host_facts", host))
    make_job("retention")
    return herder
