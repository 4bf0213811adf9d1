"""A restore under way: one at a time, and between its first change and its last nothing of the herder starts."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings

from hosts.store.paths import encode_name
from hosts.store.root import sync_folder, write_durably
from piherder import env
from piherder.archive.errors import ArchiveError, of_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARKER = "restore.unfinished"
MAY_START = {"herder_restore"}  # it goes on where it was interrupted


class UnderWay(ArchiveError):
    """Somebody uses the installation that is to be replaced."""


def marker() -> Path:
    """The file that says that a restore changed something and did not end."""
    path: Path = settings.DATA / MARKER
    return path


def require(command: str) -> None:
    """Raises BadEnvironment for every start but that of the command which goes on.

    Half of it may be in place: another database than the keys are of, jobs of then that nobody has ended yet.
    """
    if command in MAY_START or not os.path.lexists(marker()):
        return
    try:
        archive = encode_name(marker().read_text(encoding="utf-8").strip()) or "ARCHIVE"
    except (OSError, UnicodeError):
        archive = "ARCHIVE"
    raise env.BadEnvironment(
        f"Bringing {archive} back was interrupted and nothing of the herder starts before it is done: run "
        f"`./herder herder_restore {archive}` again, with the options that it had."
    )


@dataclass(frozen=True, slots=True)
class Mark:
    """The marker of this restore; `was_there`: an earlier one that was interrupted had set it."""

    was_there: bool

    def done(self) -> None:
        """Everything is in place. Raises OSError."""
        marker().unlink(missing_ok=True)
        sync_folder(settings.DATA)

    def undone(self) -> None:
        """Nothing was changed by this restore. Raises OSError."""
        if not self.was_there:
            self.done()


def mark(archive: Path) -> Mark:
    """Set the marker, on the disk when this returns. Raises OSError."""
    found = Mark(os.path.lexists(marker()))
    write_durably(marker(), os.fsencode(archive) + b"\n")
    owner = settings.DATA.stat()
    if os.geteuid() == 0:  # or the services' own user could not read why it may not start
        os.chown(marker(), owner.st_uid, owner.st_gid)
    return found


@contextmanager
def alone(*places: Path) -> Iterator[None]:
    """These folders for one restore alone. Raises UnderWay while another one works there, ArchiveError.

    The kernel drops the locks with the process, so a killed restore leaves nothing to clean up.
    """
    with ExitStack() as held:
        for place in sorted({each.resolve() for each in places}):
            try:
                descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                held.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnderWay(f"Another restore works in {place}: let it end, then start again.") from None
            except OSError as error:
                raise of_system(error, place) from error
        yield
