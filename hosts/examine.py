"""What a host needs so that it can be backed up: one script asks it, a pure function reads the answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# Arguments: what copies put before rsync ("" or `sudo -n`), then the source paths. A login whose sudo allows rsync
# alone can look at a source by rsync alone, so that lists it. `df -P` is POSIX; its fourth column is what an ordinary
# user can still write, in KiB.
SCRIPT: Final = r"""
echo "rsync=$(rsync --version 2>/dev/null | head -n 1)"
if command -v flock >/dev/null 2>&1; then echo "flock=yes"; else echo "flock="; fi
sudo=$1
shift
number=0
for source in "$@"; do
    number=$((number + 1))
    if [ -n "$sudo" ]; then
        said=$($sudo rsync --list-only --dirs -- "$source/" 2>&1 >/dev/null) && found=there || found=unreadable
        case $said in
            *"No such file or directory"*) found=missing ;;
            *"Not a directory"*) found="no folder" ;;
        esac
        echo "source=$number $found"
    elif [ ! -e "$source" ]; then
        case $(LC_ALL=C ls -d -- "$source" 2>&1) in
            *"Permission denied"*) echo "source=$number unreadable" ;;
            *) echo "source=$number missing" ;;
        esac
    elif [ ! -d "$source" ]; then echo "source=$number no folder"
    elif [ ! -r "$source" ]; then echo "source=$number unreadable"
    else echo "source=$number there"; fi
done
echo "disk=$(df -Pk / 2>/dev/null | awk 'NR == 2 {print $2, $4}')"
"""
OLDEST_RSYNC: Final = (3, 2)  # the first with --info=progress2 that counts as we read it, and zstd
LITTLE_KIB: Final = 100 * 1024
OWN: Final = "only what this user may read is backed up"
TIERS: Final = {
    ("root", True): "logs in as root",
    ("passwordless", True): "root by sudo without a password",
    ("password", True): "root by sudo with the stored password; backups use rsync by sudo without one",
    ("none", True): "rsync by sudo without a password: backups read everything",
    ("passwordless", False): f"root by sudo, but not for rsync: {OWN}",
    ("password", False): f"root by sudo with the stored password, which backups never use: {OWN}",
    ("none", False): f"no root: {OWN}",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `advice` says what to do where it is not well."""

    name: str
    well: bool
    words: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """What the script printed, read; `rsync` is None when it is missing, disk numbers are KiB or None."""

    rsync: tuple[int, ...] | None
    flock: bool
    sources: tuple[str, ...]
    disk_total: int | None
    disk_free: int | None


def read_answers(printed: str) -> Answers:
    """Read the `name=value` lines; other lines are passed over."""
    pairs = [line.partition("=")[::2] for line in printed.splitlines() if "=" in line]
    values = dict(pairs)
    version = re.search(r"version\s+v?(\d+(?:\.\d+)*)", values.get("rsync", ""))
    disk = [int(word) for word in values.get("disk", "").split() if word.isdigit()]
    total, free = disk if len(disk) == 2 else (None, None)
    return Answers(
        rsync=tuple(int(part) for part in version[1].split(".")) if version else None,
        flock=values.get("flock") == "yes",
        sources=tuple(value.partition(" ")[2] for name, value in pairs if name == "source"),
        disk_total=total,
        disk_free=free,
    )


def judge(host: str, answers: Answers, sources: Sequence[str]) -> list[Check]:
    """The checks of one host, in the order a person reads them."""
    checks = [_rsync(host, answers.rsync), _flock(host, answers.flock), _disk(host, answers)]
    checks += [_source(host, path, found) for path, found in zip(sources, answers.sources, strict=False)]
    return checks


def _rsync(host: str, version: tuple[int, ...] | None) -> Check:
    if version is None:
        return Check("rsync", False, "missing", f"rsync is missing on {host}: sudo apt-get install rsync")
    text = ".".join(map(str, version))
    if version < OLDEST_RSYNC:
        return Check(
            "rsync", False, text, f"rsync {text} on {host} is too old, 3.2 or newer is needed: upgrade the system"
        )
    return Check("rsync", True, text)


def _flock(host: str, there: bool) -> Check:
    if there:
        return Check("flock", True, "there")
    return Check("flock", False, "missing", f"flock is missing on {host}: sudo apt-get install util-linux")


def _disk(host: str, answers: Answers) -> Check:
    if answers.disk_free is None or answers.disk_total is None:
        return Check("disk", True, "unknown")
    words = f"{answers.disk_free / 1048576:.1f} GiB of {answers.disk_total / 1048576:.1f} GiB free on /"
    if answers.disk_free < LITTLE_KIB:
        return Check("disk", False, words, f"/ on {host} is nearly full: free some space there")
    return Check("disk", True, words)


def _source(host: str, path: str, found: str) -> Check:
    name = f"source {path}"
    if found == "there":
        return Check(name, True, "readable")
    if found == "unreadable":
        return Check(
            name, False, found, f"{path} cannot be read on {host} by this user: allow sudo for rsync, or its group"
        )
    if found == "no folder":
        return Check(name, False, found, f"{path} is no folder on {host}: name the folder that holds it as the source")
    return Check(
        name,
        False,
        "missing",
        f"{path} does not exist on {host}: mount it, or ./herder edit_host {host} --remove-source {path}",
    )


def failed(host: str, status: int | None, stderr: str) -> Check:
    """The script itself did not run: nothing is known of the rest."""
    said = (stderr.strip().splitlines() or ["it did not say why"])[-1]
    return Check(
        "script", False, f"exit code {status}", f"A small script cannot run on {host} ({said}): repair its shell"
    )


def tier(mode: str, *, copies: bool) -> Check:
    """What the user may do there, and whether copies run as root: either can be backed up, so none is a fault."""
    return Check("sudo", True, TIERS[mode, copies])
