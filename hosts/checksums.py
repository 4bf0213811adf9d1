"""The checksums that rsync told of one copy: few in memory, many in a file of their own that nobody else sees."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosts.rsync.output import FileLine

AT_ONCE = 50_000  # entries in memory, about 15 MB


class Checksums(Mapping[bytes, str]):
    """Hex digests by name; the later of two for a name holds. Use it as a context manager, from one thread.

    Beyond `AT_ONCE` entries they lie in a temporary database (an empty name, sqlite.org/inmemorydb.html), which has no
    name on disk and is gone with the process.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self.at_once, self.recent = at_once, dict[bytes, bytes]()
        self.spooled: sqlite3.Connection | None = None

    def hear(self, line: FileLine) -> None:
        """Keep what a line of rsync says. Raises OSError when the temporary folder is full."""
        if not line.checksum:
            return
        self.recent[line.name] = bytes.fromhex(line.checksum)
        if len(self.recent) >= self.at_once:
            try:
                self._spool()
            except sqlite3.OperationalError as error:
                raise OSError(errno.ENOSPC, f"the folder for temporary files is full ({error})") from error

    def _spool(self) -> None:
        if self.spooled is None:
            self.spooled = sqlite3.connect("", isolation_level=None)
            self.spooled.execute("CREATE TABLE digests (name BLOB PRIMARY KEY, digest BLOB) WITHOUT ROWID")
        self.spooled.execute("BEGIN")
        self.spooled.executemany("INSERT OR REPLACE INTO digests VALUES (?, ?)", self.recent.items())
        self.spooled.execute("COMMIT")
        self.recent.clear()

    def _everywhere(self) -> sqlite3.Connection | None:
        """The database with all entries in it, None when there is none."""
        if self.spooled is not None and self.recent:
            self._spool()
        return self.spooled

    def __getitem__(self, name: bytes) -> str:
        if name in self.recent or self.spooled is None:
            return self.recent[name].hex()
        row = self.spooled.execute("SELECT digest FROM digests WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise KeyError(name)
        digest: bytes = row[0]
        return digest.hex()

    def __iter__(self) -> Iterator[bytes]:
        spooled = self._everywhere()
        return iter(self.recent) if spooled is None else (row[0] for row in spooled.execute("SELECT name FROM digests"))

    def __len__(self) -> int:
        spooled = self._everywhere()
        if spooled is None:
            return len(self.recent)
        number: int = spooled.execute("SELECT count(*) FROM digests").fetchone()[0]
        return number

    def __enter__(self) -> Checksums:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spooled is not None:
            self.spooled.close()
