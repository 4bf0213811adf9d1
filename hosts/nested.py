"""The herder in its own herd: a source that holds the backup root would hold every backup again, and those of those."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from hosts.rsync.command import literal
from hosts.store.paths import decode_name, encode_name, to_text
from hosts.store.root import MARKER, closing_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosts.models import BackupRoot, Source

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SELF = "."
# Where the login may not read a marker, rsync can at least see it, and the boot id says whether it is on this machine.
# A root in a container has another path on its machine, so markers are also looked for above each path.
SCRIPT = """
real() {{ readlink -m -- "$1" 2>/dev/null || readlink -f -- "$1" 2>/dev/null || echo "$1"; }}
for root in {roots}; do
    echo "root=$(real "$root")"
    set -- "$root/{marker}"
    cat -- "$1" 2>/dev/null || {{ $rsync -d --list-only -- "$1" >/dev/null 2>&1 && echo "there $(cat {boot_id})"; }}
    echo
done
for path in {paths}; do
    path=$(real "$path")
    echo "path=$path"
    while test -n "$path"; do
        test -r "$path/{marker}" && echo "above=$(tr '\\n' ' ' <"$path/{marker}")"
        path=${{path%/*}}
    done
done
"""


def look(roots: Sequence[BackupRoot], sources: Sequence[Source]) -> str:
    """The sh script that lets a host tell what `within` reads; `$rsync` is the command that may read most there."""
    places = shlex.join(root.path for root in roots)
    return SCRIPT.format(roots=places, paths=shlex.join(_paths(sources)), marker=MARKER, boot_id=BOOT_ID)


def within(said: Sequence[str], roots: Sequence[BackupRoot], sources: Sequence[Source]) -> dict[str, tuple[str, ...]]:
    """Where backup roots of ours lie below each of the sources of a host, from the lines that `look` printed.

    By the source's path, paths relative to it; `SELF` alone where the source is a root or lies in one. Sources without
    any are left out.
    """
    ours = [place for place, root in zip(_told(said, "root="), roots, strict=False) if _is_ours(place[1:], root)]
    told = _told(said, "path=")
    places = told if len(told) == len(sources) else [[path] for path in _paths(sources)]
    found: dict[str, tuple[str, ...]] = {}
    for source, (place, *above) in zip(sources, places, strict=True):
        below = sorted({relative(place, lines[0]) for lines in ours} - {""})
        if SELF in below or any(root.marker.hex in line for line in above for root in roots):
            found[source.path] = (SELF,)
        elif below:
            found[source.path] = tuple(below)
    return found


def closed(roots: Sequence[BackupRoot]) -> tuple[str, ...]:
    """Names of the files that keep rsync out of these roots, also where a host knows them by other paths."""
    return tuple(closing_name(root.marker.hex) for root in roots)


def _told(said: Sequence[str], word: str) -> list[list[str]]:
    """For each root or path where it really is, and what the markers there say."""
    found: list[list[str]] = []
    mine = False
    for line in said:
        if line.startswith(("root=", "path=")):
            mine = line.startswith(word)
            found += [[line.removeprefix(word)]] if mine else []
        elif mine:
            found[-1].append(line)
    return found


def _paths(sources: Sequence[Source]) -> list[str]:
    return [to_text(decode_name(source.path)) for source in sources]


def _is_ours(said: Sequence[str], root: BackupRoot) -> bool:
    here = f"there {BOOT_ID.read_text().strip()}"
    return any(root.marker.hex in line or line == here for line in said)


def relative(source: str, root: str) -> str:
    """The path from a folder to a root below it; `SELF` where it is the root or lies in it, "" for other places."""
    common = os.path.commonpath((source, root))
    if common == root:
        return SELF
    return os.path.relpath(root, source) if common == source else ""


def exclude(below: str) -> str:
    """The pattern that leaves out this folder and no other."""
    return os.fsdecode(literal(os.fsencode(f"/{below}")))


def left_out(source: Source, below: Sequence[str]) -> str:
    """The warning about them."""
    return f"{lies_in(source.path, below)} out of its backup."


def lies_in(folder: str, below: Sequence[str]) -> str:
    """How a sentence about roots below a folder begins."""
    return f"The backup root lies in {folder} ({', '.join(map(encode_name, below))}) and was left"
