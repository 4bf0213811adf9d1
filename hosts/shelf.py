"""What is kept of a host: its sources with their generations, and what one folder of a generation holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from hosts.enrol import EnrolRefused
from hosts.models import Generation, GenerationStatus
from hosts.store.layout import MANIFEST
from hosts.store.manifest import browse
from hosts.store.paths import StoreError, encode_name

if TYPE_CHECKING:
    from hosts.models import Host, Source
    from hosts.store.manifest import Entry

SHOWN = 60  # generations of one source on the host's page
NAMES = 500  # names of one folder on a page
KINDS = {"dir": "Folder", "file": "File", "symlink": "Link", "other": "Special file"}


@dataclass(frozen=True, slots=True)
class Shelf:
    """One source with its good generations, newest first; `more` older ones are not shown."""

    source: Source
    generations: list[Generation]
    more: int


@dataclass(frozen=True, slots=True)
class Name:
    """One name in a folder of a generation; `path` leads to it from the top of the source."""

    path: str
    name: str
    kind: str
    size: int | None
    changed: datetime | None  # None: a moment that no calendar of ours holds

    @property
    def is_folder(self) -> bool:
        """True when it can be opened."""
        return self.kind == KINDS["dir"]


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of a generation, folders first; `trouble` says why it cannot be read."""

    path: str
    names: list[Name]
    more: bool = False
    trouble: str = ""

    @property
    def way(self) -> list[tuple[str, str]]:
        """The folders above and this one as (name, path), the topmost first."""
        parts = self.path.split("/") if self.path else []
        return [(part, "/".join(parts[: number + 1])) for number, part in enumerate(parts)]


def shelves(host: Host) -> list[Shelf]:
    """Every source of a host with what is kept of it; two queries."""
    kept: dict[int, list[Generation]] = {}
    good = Generation.objects.filter(source__host=host, status=GenerationStatus.GOOD)
    for generation in good.defer("warnings").order_by("-sequence"):
        kept.setdefault(generation.source_id, []).append(generation)
    found = ((source, kept.get(source.pk, [])) for source in host.sources.all())
    return [Shelf(source, rows[:SHOWN], max(0, len(rows) - SHOWN)) for source, rows in found]


def folder(generation: Generation, path: str) -> Folder:
    """What a folder of a generation holds, from its manifest; no file is opened."""
    path = path.strip("/")
    try:
        entries = list(islice(browse(generation.path / MANIFEST, path), NAMES + 1))
    except (StoreError, OSError) as trouble:
        return Folder(path, [], trouble=str(trouble))
    names = sorted((_name(entry) for entry in entries[:NAMES]), key=lambda name: (not name.is_folder, name.name))
    return Folder(path, names, more=len(entries) > NAMES)


def _name(entry: Entry) -> Name:
    path = encode_name(entry.name)
    size = entry.size if entry.kind == "file" else None
    return Name(path, path.rpartition("/")[2], KINDS[entry.kind], size, _moment(entry.mtime_ns / 1e9))


def _moment(seconds: float) -> datetime | None:
    """A file may be dated far beyond the year 9999; datetime cannot, in the zone of the page neither."""
    try:
        return timezone.localtime(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def keep(generation: Generation, note: str) -> None:
    """Keep a generation for ever, with the reason why. Raises EnrolRefused when it is being deleted."""
    _mark(generation, kept_at=timezone.now(), kept_note=note[:200])


def let_go(generation: Generation) -> None:
    """Leave a generation to the host's rule again. Raises EnrolRefused when it is being deleted."""
    _mark(generation, kept_at=None, kept_note="")


def _mark(generation: Generation, **values: Any) -> None:
    """In one update that names the status: retention may take the generation after the row was read."""
    still = Generation.objects.filter(pk=generation.pk, status=GenerationStatus.GOOD)
    if not still.update(**values):
        raise EnrolRefused(f"Generation {generation.sequence} is being deleted.")
