"""`herder_backup`: make an archive of the herder itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.management.door import EXIT_CODES
from jobs.management.waiting import RequestCommand, add_wait_options
from piherder.archive import passphrase
from piherder.archive.errors import ArchiveError
from piherder.archive.overview import KIND

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(RequestCommand):
    """Request the job."""

    help = f"Make an archive of the herder itself: database, keys, manifest. {EXIT_CODES}."
    troubles = (ArchiveError,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """How to wait."""
        parser.add_argument(
            "--new-folder", action="store_true", help="begin anew where archives were before and are not now"
        )
        add_wait_options(parser)

    def work(self, **options: Any) -> int:
        """Refuse what cannot end well, then request, wait, report."""
        passphrase.configured()
        params = {"new_folder": True} if options["new_folder"] else {}
        return self.conclude([self.request(KIND, "", None, params)], options)
