"""Which filesystems below a source a backup leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.facts.model import Facts
from hosts.models import HostFacts
from hosts.store.paths import decode_name, encode_name, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hosts.models import Source


def stays_on_one(source: Source) -> bool:
    """Whether other filesystems below the source are left out; below / there is always /proc."""
    return source.one_file_system or source.path == "/"


def not_covered(source: Source) -> tuple[str, ...]:
    """One warning for each disk that is mounted below the source and left out, as far as the host's facts tell."""
    if not stays_on_one(source):
        return ()
    row = HostFacts.objects.filter(host_id=source.host_id).first()
    disks = (Facts.from_json(row.data).disks if row else None) or ()
    return warnings(to_text(decode_name(source.path)), (disk.mount for disk in disks))


def warnings(path: str, mounts: Iterable[str]) -> tuple[str, ...]:
    """Sentences for the mount points that lie below `path`."""
    top = path.rstrip("/") + "/"
    below = sorted({mount for mount in mounts if mount.startswith(top) and mount != top})
    return tuple(f"not covered: other file system at {encode_name(mount)}" for mount in below)
