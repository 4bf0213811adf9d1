"""How far a copy is, in the engine's terms, and how far one came that had to stop."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosts.words import size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hosts.rsync.output import Progress
    from jobs.registry import Run

LONGEST_WALK = 10.0  # seconds: who stops work waits for its end


@dataclass(slots=True)
class Meter:
    """Hears the progress of one copy and passes it on. `total` is in bytes, None until it is known."""

    run: Run
    label: str = ""
    total: int | None = None
    done: int = 0

    def hear(self, progress: Progress) -> None:
        """The total is known once the listing has ended and grows until then."""
        self.total = progress.bytes * 100 // progress.percent if progress.percent else self.total
        self.done = max(self.done, progress.bytes)
        self.run.progress(progress.bytes, self.total, self.label + words(progress))

    def came_to(self, tree: Path, before: int, seconds: float = LONGEST_WALK) -> str:
        """ "63 % copied" of what lies in `tree` now; `before` is the size of the last good generation, or 0.

        A tree too large to be counted in so many seconds is "at least" what was seen of it, or what rsync said last.
        """
        there, whole = bytes_below(tree, seconds)
        there, least = (there, "") if whole else (max(there, self.done), "at least ")
        total = max(self.total or 0, before)
        return least + (f"{min(99, there * 100 // total)} % copied" if total else f"{size(there)} copied")


def words(progress: Progress) -> str:
    """ "3.4 MB/s, 120 files, 1:05 left"."""
    speed = f"{progress.speed / 1e6:.1f} MB/s"
    files = f", {progress.files_done} files" if progress.files_done is not None else ""
    eta = f", {progress.eta // 60}:{progress.eta % 60:02d} left" if progress.eta is not None else ""
    return speed + files + eta


def bytes_below(tree: Path, seconds: float = LONGEST_WALK) -> tuple[int, bool]:
    """Length of all files below `tree`, and whether all were seen within `seconds`.

    What was linked from an older generation counts, as it is there.
    """
    total, give_up = 0, time.monotonic() + seconds
    for length in _lengths(os.fsencode(tree)):
        if time.monotonic() >= give_up:
            return total, False
        total += length
    return total, True


def _lengths(tree: bytes) -> Iterator[int]:
    """Of each name; 0 for what is no file, so that a watcher of the time hears of folders too."""
    waiting = [tree]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder:
                    waiting.append(entry.path)
                yield 0 if is_folder else entry.stat(follow_symlinks=False).st_size
