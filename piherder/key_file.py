"""The file that holds the master keys, as a list that follows the file while processes run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from hosts.store.root import sync_folder
from piherder import env

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Stamp = tuple[int, int, int, int]


class KeyFile(Sequence[str]):
    """The master keys of a file, the newest first, one a line; empty while there is no such file.

    The file is read again whenever it was replaced, so that a worker or a page that runs for weeks opens what was
    sealed with a key made meanwhile, and seals with it: a rotation needs no restart. A file that went away or cannot
    be read any more changes nothing for a process that has read it once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[Stamp | None, tuple[str, ...]] = (None, ())

    def now(self) -> tuple[str, ...]:
        """The keys as they are at this moment."""
        seen, keys = self._known
        stamp = self._stamp()
        if stamp is None or stamp == seen:
            return keys
        found = self._read()
        if found:
            self._known = (stamp, found)
        return found or keys

    def _stamp(self) -> Stamp | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> tuple[str, ...]:
        try:
            return tuple(self.path.read_text(encoding="ascii").split())
        except (OSError, UnicodeError):
            return ()

    def put(self, keys: Sequence[str]) -> None:
        """Replace the keys by one rename: after a power cut there are the old ones or the new ones. Raises OSError."""
        draft = env.secret_draft(self.path, "\n".join(keys))
        try:
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(self.path.parent)

    def clear_drafts(self) -> int:
        """Remove what a `put` that was killed left beside the file; returns how many. Nobody else may be putting."""
        drafts = list(self.path.parent.glob(f".{self.path.name}.{'[0-9a-f]' * 16}"))
        for draft in drafts:
            draft.unlink(missing_ok=True)
        return len(drafts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.now())

    def __len__(self) -> int:
        return len(self.now())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self.now()[index]

    def __repr__(self) -> str:
        """Settings are shown on Django's error pages: the path, never a key."""
        return f"KeyFile({str(self.path)!r})"
