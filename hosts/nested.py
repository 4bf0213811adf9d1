"""The herder in its own herd: a source that holds the backup root would hold every backup again, and those of those."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosts.rsync.command import literal
from hosts.store.paths import decode_name, encode_name, to_text
from hosts.store.root import MARKER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosts.models import BackupRoot, Source
    from hosts.rsync.command import Remote

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Paths: the marker, the root, the sources. Where the login may not read the marker, rsync can at least see it, and the
# boot id says whether it is on this machine.
SCRIPT = """
set -- {paths}
cat -- "$1" 2>/dev/null || {{ $rsync -d --list-only -- "$1" >/dev/null 2>&1 && echo "there $(cat {boot_id})"; }}
echo
shift
for path in "$@"; do echo "path=$(readlink -f -- "$path" || echo "$path")"; done
"""


def roots_within(shell: Any, remote: Remote, root: BackupRoot, sources: Sequence[Source]) -> dict[str, str]:
    """Where our backup root lies below each of the sources of a host: by the source's path, a path relative to it,
    "." where it is the source itself. Sources without it are left out.
    """
    rsync = "sudo -n rsync" if remote.sudo else "rsync"
    said = shell.script(f"rsync={shlex.quote(rsync)}\n{look(root, sources)}", timeout=60).stdout
    return within(said.splitlines(), root, sources)


def look(root: BackupRoot, sources: Sequence[Source]) -> str:
    """The sh script that lets a host tell what `within` reads; `$rsync` is the command that may read most there."""
    return SCRIPT.format(paths=shlex.join([f"{root.path}/{MARKER}", *_paths(root, sources)]), boot_id=BOOT_ID)


def within(said: Sequence[str], root: BackupRoot, sources: Sequence[Source]) -> dict[str, str]:
    """What `roots_within` returns, from the lines that `look` printed."""
    if not _is_ours(said, root):
        return {}
    paths = _paths(root, sources)
    real = [line.removeprefix("path=") for line in said if line.startswith("path=")]
    places = real if len(real) == len(paths) else paths
    found = {source.path: relative(place, places[0]) for source, place in zip(sources, places[1:], strict=True)}
    return {path: below for path, below in found.items() if below}


def _paths(root: BackupRoot, sources: Sequence[Source]) -> list[str]:
    return [root.path, *(to_text(decode_name(source.path)) for source in sources)]


def _is_ours(said: Sequence[str], root: BackupRoot) -> bool:
    here = f"there {BOOT_ID.read_text().strip()}"
    return any(root.marker.hex in line or line == here for line in said)


def relative(source: str, root: str) -> str:
    """The path from one folder to the other when that lies below it or is the same, else ""."""
    return os.path.relpath(root, source) if os.path.commonpath((source, root)) == source else ""


def exclude(below: str) -> str:
    """The pattern that leaves out this folder and no other."""
    return os.fsdecode(literal(os.fsencode(f"/{below}")))


def left_out(source: Source, below: str) -> str:
    """The warning about it."""
    return f"The backup root lies in {source.path} ({encode_name(below)}) and was left out of its backup."
