"""Rows about backups and facts for the tests of the pages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from hosts.facts.model import Disk, Facts
from hosts.models import BackupRoot, Generation, GenerationStatus, Host, HostFacts, Source
from hosts.store.layout import generation_name, source_folder_name

if TYPE_CHECKING:
    from pathlib import Path


def make_source(host: Host, path: str = "/srv/data", **fields: Any) -> Source:
    """A folder that is backed up."""
    return Source.objects.create(host=host, path=path, folder=source_folder_name(path), **fields)


def make_generation(source: Source, sequence: int = 1, root: Path | str = "/nowhere", **fields: Any) -> Generation:
    """A good generation, a day older than its successor."""
    disk, _ = BackupRoot.objects.get_or_create(path=str(root))
    taken = timezone.now() - timedelta(days=10 - sequence)
    known: dict[str, Any] = {"status": GenerationStatus.GOOD, "started_at": taken, "finished_at": taken, **fields}
    folder = generation_name(sequence, taken)
    return Generation.objects.create(source=source, sequence=sequence, folder=folder, root=disk, **known)


def know(host: Host, **facts: Any) -> None:
    """What the host said of itself."""
    HostFacts.objects.create(host=host, data=Facts(**facts).to_json(), read_at=timezone.now())


def disk(mount: str, percent: int) -> Disk:
    """A disk of 100 GiB."""
    gib = 2**30
    return Disk(mount, "/dev/sda1", "ext4", 100 * gib, percent * gib, (100 - percent) * gib)
