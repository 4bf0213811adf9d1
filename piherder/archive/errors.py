"""Why an archive cannot be made or used, in words."""

from __future__ import annotations

import errno

from jobs.models import Failure

FULL = (errno.ENOSPC, errno.EDQUOT)
DAMAGED = "The archive is damaged or incomplete: take another one."
FULL_WORDS = ("No space left on device", "database or disk is full", "Disk quota exceeded")


class ArchiveError(Exception):
    """An archive cannot be made or used; the text is one plain sentence for a person, `code` for programs."""

    def __init__(self, message: str, code: Failure = Failure.ERROR) -> None:
        super().__init__(message)
        self.code = code


def no_space(place: object) -> ArchiveError:
    """The disk of `place` is full."""
    text = f"There is no room left for {place}: free some there; nothing that was kept before is touched."
    return ArchiveError(text, Failure.NO_SPACE)


def of_system(error: OSError, place: object) -> ArchiveError:
    """What the system said about `place`."""
    if error.errno in FULL:
        return no_space(place)
    return ArchiveError(f"{place} cannot be used ({error.strerror or error}): look at its disk and its rights.")


def of_program(name: str, said: str, place: object) -> ArchiveError:
    """A program that failed, by the last thing it said."""
    if any(words in said for words in FULL_WORDS):
        return no_space(place)
    last = (said.strip().splitlines() or ["it gave no reason"])[-1].strip().rstrip(".")
    return ArchiveError(f"{name} failed: {last.removeprefix(f'{name}: ').removeprefix('error: ')}.")
