"""What rsync prints, as data. Pure functions over bytes.

Found out with rsync 3.5.0 on both sides, `OUT_FORMAT` and LC_ALL=C, pull and push alike:

- `%C` is the checksum of the transferred data and is there without `-c`, since protocol 30 no longer salts it
  (rsyncd.conf(5), "log format"). It equals md5sum of the written file, sparse and empty ones included.
- It is blank for folders, links and devices; for a name made as a hard link of another (`hf`: take the checksum of a
  name with the same inode); for a file of which only owner or mode changed (`cf`: take it from the previous manifest).
  In a dry run it is blank or all zeros. A wholly unchanged file, linked from --link-dest, prints no line at all.
- md5 is forced: without a choice the two sides negotiate xxh128 or whatever both know. Every rsync since 3.0 has md5,
  3.1.3 and later accept the option, and hashlib can check it; xxh128 needs an rsync built with libxxhash on both sides
  and a package of its own here.
- A byte that cannot be shown is `\\#` and three octal digits (log.c, filtered_fwrite). A tab is not escaped, so the
  name stands last.
- `%M` has whole seconds, in the zone of the process: `environment()` sets UTC.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

_ESCAPE = re.compile(rb"\\#([0-3][0-7]{2})")
_PROGRESS = re.compile(
    rb"\s*(?P<bytes>\d+)\s+(?P<percent>\d+)%\s+(?P<speed>\d+\.\d\d)(?P<unit>[kMGT]?)B/s\s+"
    rb"(?:(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)|\?\?:\?\?:\?\?)"
    rb"(?:\s+\(xfr#(?P<transferred>\d+), (?P<mode>to|ir)-chk=(?P<left>\d+)/(?P<total>\d+)\))?\s*"
)
_UNITS = {b"": 1, b"k": 1000, b"M": 1000**2, b"G": 1000**3, b"T": 1000**4}
_STAT = re.compile(rb"([A-Z][A-Za-z ]+): (\d+)")
_ERRNO = re.compile(rb" \((\d{1,9})\)\Z")
_CAPITAL = re.compile(rb"[A-Z]")
_VANISHED = re.compile(rb'(?:file|directory) has vanished: "(?P<path>.*)"')
_OWN = re.compile(rb"\Arsync(?: error| warning)?: | failed verification -- ")
_CLOSING = (b"rsync error: ", b"rsync warning: ")
_SENDER = b"rsync: [sender] "
_DENIED = (errno.EACCES, errno.EPERM)
_BLANK = b" 0"
_FILE = b"file\t"


def unescape(text: bytes) -> bytes:
    """Return the bytes that rsync's `\\#ooo` escapes stand for."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 8)]), text) if b"\\#" in text else text


@dataclass(frozen=True, slots=True)
class Progress:
    """A state of the whole copy. Files are None in updates in mid file; `listing`: the totals still grow."""

    bytes: int
    percent: int
    speed: int  # bytes per second
    eta: int | None  # seconds
    transferred: int | None = None
    files_done: int | None = None
    files_left: int | None = None
    listing: bool = False


def is_progress(line: bytes) -> bool:
    """Whether `parse_progress` could read the line; cheaper, for the many that nobody wants to see."""
    return _PROGRESS.fullmatch(line) is not None


def parse_progress(line: bytes) -> Progress | None:
    """Read one state of --info=progress2 with --no-human-readable; None when the line is something else."""
    found = _PROGRESS.fullmatch(line)
    if found is None:
        return None
    left, total = (int(found[name]) if found[name] else None for name in ("left", "total"))
    return Progress(
        bytes=int(found["bytes"]),
        percent=min(int(found["percent"]), 100),
        speed=int(float(found["speed"]) * _UNITS[found["unit"]]),
        eta=int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"]) if found["h"] else None,
        transferred=int(found["transferred"]) if found["transferred"] else None,
        files_done=None if left is None or total is None else total - left,
        files_left=left,
        listing=found["mode"] == b"ir",
    )


class FileLine(NamedTuple):
    """One name that rsync made, changed or deleted. `change` is %i (rsync(1), --itemize-changes)."""

    name: bytes
    change: str
    length: int
    stamp: bytes  # %M
    checksum: str  # md5 in hex; empty where rsync computed none, see above

    @property
    def mtime(self) -> datetime | None:
        """In whole seconds; None for a year that Python cannot hold, such as 12000."""
        try:
            return datetime.strptime(self.stamp.decode("ascii"), "%Y/%m/%d-%H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            return None

    @property
    def deleted(self) -> bool:
        return self.change.startswith("*deleting")

    @property
    def is_file(self) -> bool:
        return self.change[1:2] == "f"

    @property
    def hard_linked(self) -> bool:
        return self.change.startswith("hf")

    @property
    def transferred(self) -> bool:
        return self.change[:1] in "<>" and self.is_file


def parse_file(line: bytes) -> FileLine | None:
    """Read one line of OUT_FORMAT; None when the line is something else."""
    if not line.startswith(_FILE):
        return None
    fields = line.split(b"\t", 5)
    if len(fields) != 6 or not fields[2].isdigit():
        return None
    _, change, length, stamp, checksum, name = fields
    told = checksum.decode("ascii", "replace") if checksum.strip(_BLANK) else ""
    return FileLine(unescape(name), change.decode("ascii", "replace").rstrip(), int(length), stamp, told)


@dataclass(frozen=True, slots=True)
class Stats:
    """The totals of --info=stats2: numbers of files, and bytes."""

    files: int = 0
    created: int = 0
    deleted: int = 0
    transferred: int = 0
    total_bytes: int = 0
    transferred_bytes: int = 0
    literal_bytes: int = 0
    matched_bytes: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


STAT_FIELDS = {
    b"Number of files": "files",
    b"Number of created files": "created",
    b"Number of deleted files": "deleted",
    b"Number of regular files transferred": "transferred",
    b"Total file size": "total_bytes",
    b"Total transferred file size": "transferred_bytes",
    b"Literal data": "literal_bytes",
    b"Matched data": "matched_bytes",
    b"Total bytes sent": "sent_bytes",
    b"Total bytes received": "received_bytes",
}


def parse_stat(line: bytes) -> tuple[str, int] | None:
    """Read one line of the totals as (field of Stats, value); None when the line is something else."""
    found = _STAT.match(line)
    if found is None or found[1] not in STAT_FIELDS:
        return None
    return STAT_FIELDS[found[1]], int(found[2])


@dataclass(frozen=True, slots=True)
class Message:
    """A line on stderr. `path` and `errno` are there where rsync names them; `vanished`: gone during the copy."""

    text: bytes
    path: bytes | None = None
    errno: int | None = None
    vanished: bool = False

    @property
    def denied(self) -> bool:
        """A name that the system does not let one of the two sides have."""
        return self.path is not None and self.errno in _DENIED

    @property
    def by_sender(self) -> bool:
        """It speaks of what was to be read, not of what was to be written."""
        return self.text.startswith(_SENDER)

    @property
    def own(self) -> bool:
        """One of rsync's own; the rest is said by ssh, sudo or a login script."""
        return _OWN.search(self.text) is not None

    @property
    def unexplained(self) -> bool:
        """Neither a name that may not be read, nor a vanished one, nor the line that says how rsync ended.

        Nor a broken pipe, which one side has when the other one ended; why that ended is said by its own message.
        """
        refused = self.denied and self.by_sender
        torn = self.path is None and self.errno == errno.EPIPE
        return not (refused or torn or self.vanished or self.text.startswith(_CLOSING))


def parse_message(line: bytes) -> Message:
    """Read one line of stderr: rsync's own, or ssh's, sudo's, a login script's."""
    if found := _VANISHED.search(line):
        return Message(line, unescape(found["path"]), vanished=True)
    if line.startswith(b"rsync: ") and (found := _ERRNO.search(line)):
        return _error(line, line[: found.start()], int(found[1]))
    return Message(line)


def _error(line: bytes, head: bytes, errno: int) -> Message:
    """`… "path" failed: Reason (errno)`, the path up to its last quote.

    By looks from the end and not by one pattern: the host's users choose the names, and a long one made of quotes and
    colons would keep a pattern, and with it every thread of the worker, busy for hours.
    """
    at = max(head.rfind(b":"), head.rfind(b'"'))
    if not _CAPITAL.search(head, at + 1):
        return Message(line)
    first, last = head.find(b'"'), head.rfind(b'"', 0, max(at, 0))
    named = head[at : at + 2] == b": " and _CAPITAL.match(head, at + 2) and 0 <= first < last
    return Message(line, unescape(head[first + 1 : last]) if named else None, errno)
