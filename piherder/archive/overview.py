"""How the herder's own backup stands: what is kept, and what needs attention. For the page and for `status`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import timezone

from hosts.models import Host
from jobs.models import EngineSettings, Job, Status
from jobs.spans import span
from piherder.archive import passphrase, shelf, site
from piherder.archive.errors import ArchiveError

if TYPE_CHECKING:
    from pathlib import Path

    from piherder.archive.shelf import Archive

KIND = "herder_backup"
FRESH = timedelta(hours=48)
PATIENCE = timedelta(minutes=30)
MAKE_ONE = "./herder herder_backup makes one"


@dataclass(frozen=True, slots=True)
class Overview:
    """What the page shows; `notes` are true and bearable, `problems` are not."""

    folder: Path
    archives: list[Archive]
    notes: list[str]
    problems: list[str]


def overview(now: datetime | None = None) -> Overview:
    """Look at the folder and at the rows."""
    moment, folder = now or timezone.now(), settings.PIHERDER_ARCHIVES
    found = shelf.archives(folder)
    return Overview(folder, found, notes(found), problems(found, moment))


def problems(found: list[Archive], now: datetime) -> list[str]:
    """One sentence each. While the herd is on hold no archive can be made, and nobody expects any."""
    held = EngineSettings.load().held
    return [*unreadable_passphrase(), *([] if held else [*stuck(now), *late(found, now)])]


def stuck(now: datetime) -> list[str]:
    """A request that nobody has begun for over 30 minutes."""
    rows = Job.objects.filter(kind=KIND, status=Status.PENDING, created_at__lt=now - PATIENCE)
    return [
        f"Job {row.pk}, the backup of the herder, has been pending for {span((now - row.created_at).total_seconds())}: "
        "is a worker running and free?"
        for row in rows
    ]


def late(found: list[Archive], now: datetime) -> list[str]:
    """No fresh archive although there is something to lose."""
    if not found:
        return [f"There is no archive of the herder itself: {MAKE_ONE}."] if Host.herd.exists() else []
    age = now - found[0].name.taken_at
    if age <= FRESH:
        return []
    return [f"The newest archive of the herder itself is {span(age.total_seconds())} old: {MAKE_ONE}."]


def unreadable_passphrase() -> list[str]:
    """Why archives cannot be encrypted as they should."""
    try:
        passphrase.configured()
    except ArchiveError as error:
        return [str(error)]
    return []


def notes(found: list[Archive]) -> list[str]:
    """What an owner should know before a loss."""
    said = []
    if settings.PIHERDER_ARCHIVE_PASSPHRASE_FILE is None or any(not each.key_inside for each in found[:1]):
        said.append(
            f"The master key is not inside: keep a copy of {site.key_place()} elsewhere, or the stored logins cannot "
            f"be read after a loss. With {passphrase.SETTING} archives are encrypted and hold it."
        )
    if on_one_disk(settings.PIHERDER_ARCHIVES, settings.DATA):
        said.append("The archives lie on the disk of the data: copy them, or name another one with PIHERDER_ARCHIVES.")
    return said


def on_one_disk(one: Path, other: Path) -> bool:
    """Whether both folders are there and on the same filesystem."""
    try:
        return one.stat().st_dev == other.stat().st_dev
    except OSError:
        return False
