"""`herder_backup`: one archive of everything this installation is, so that it can be brought back elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.conf import settings

from hosts.words import count, size
from jobs.models import Failure, Job, Status
from jobs.patience import patiently
from jobs.registry import Family, JobFailed, Run, Summary, register
from piherder.archive import shelf, site
from piherder.archive.errors import ArchiveError
from piherder.archive.make import Made, make

if TYPE_CHECKING:
    from pathlib import Path


class HerderBackupForm(forms.Form):
    """Parameters of `herder_backup`."""

    new_folder = forms.BooleanField(required=False, help_text="Begin anew in a folder that lost what was in it.")


@register
class HerderBackup(Family):
    """Back up the herder: a dump of the database, the site's files and a manifest, as one archive."""

    kind, label = "herder_backup", "Back up the herder"
    lanes = ("herder_backup",)
    needs_host = False
    task = "housekeeping_job"
    form_class = HerderBackupForm
    catch_up = True

    def run(self, run: Run) -> Summary:
        """Raises JobFailed in words; older archives are whole then."""
        folder: Path = settings.PIHERDER_ARCHIVES
        if not run.params.get("new_folder"):
            require_there(folder)
        try:
            made = make(run, folder, settings.PIHERDER_ARCHIVES_KEEP)
        except ArchiveError as error:
            raise JobFailed(str(error), error.code) from error
        for name in made.removed:
            run.log(f"Removed {name}.")
        return summary(made, folder)


def require_there(folder: Path) -> None:
    """A folder that took archives before and is no longer begun: its disk is away. Raises JobFailed (not_mounted)."""
    earlier = Job.objects.filter(kind=HerderBackup.kind, status=Status.SUCCEEDED, result__folder=str(folder))
    if not shelf.has_marker(folder) and patiently(earlier.exists):
        raise JobFailed(
            f"{folder} held archives before and does not now: mount its disk, or begin anew there with "
            "./herder herder_backup --new-folder",
            Failure.NOT_MOUNTED,
        )


def summary(made: Made, folder: Path) -> Summary:
    """The evidence in one line, with what a loss of the master key would mean when it is not inside."""
    archive, inside = made.archive, made.archive.key_inside
    how = "encrypted, with the master key" if inside else f"not encrypted. {key_warning()}"
    gone = f" {count(len(made.removed), 'older one')} removed." if made.removed else ""
    result = {
        "archive": archive.path.name,
        "folder": str(folder),
        "bytes": archive.size,
        "encrypted": archive.name.encrypted,
        "master_key": made.manifest.master_key,
        "counts": made.manifest.counts,
        "removed": made.removed,
    }
    return Summary(f"{archive.path.name}, {size(archive.size)}, {how.rstrip('.')}.{gone}", result)


def key_warning() -> str:
    """What a person must know whose archives do not hold the master key."""
    return (
        f"The master key is not inside: without a copy of {site.key_place()} kept elsewhere, "
        "the stored logins cannot be read after a loss"
    )
