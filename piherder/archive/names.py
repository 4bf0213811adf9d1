"""What archives are called: `herder-<UTC time>-<sequence>.tar`, with `.gpg` behind it when encrypted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PATTERN = re.compile(r"herder-(\d{8}T\d{6}Z)-(\d{6,12})\.tar(\.gpg)?", re.ASCII)
STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class ArchiveName:
    """The parts of a name. The order of archives is the sequence, not the clock."""

    sequence: int
    taken_at: datetime
    encrypted: bool = False

    def __str__(self) -> str:
        tail = ".tar.gpg" if self.encrypted else ".tar"
        return f"herder-{stamp(self.taken_at)}-{self.sequence:06d}{tail}"

    @classmethod
    def parse(cls, text: str) -> ArchiveName | None:
        """The parts of `text`; None for whatever is not a name of ours."""
        found = PATTERN.fullmatch(text)
        if found is None:
            return None
        try:
            taken_at = datetime.strptime(found[1], STAMP).replace(tzinfo=UTC)
        except ValueError:
            return None
        return cls(int(found[2]), taken_at, found[3] is not None)


def stamp(moment: datetime) -> str:
    """A moment in UTC as names carry it."""
    return moment.astimezone(UTC).strftime(STAMP)


def next_sequence(names: Iterable[ArchiveName]) -> int:
    """One above the highest."""
    return max((name.sequence for name in names), default=0) + 1
