"""How far a copy is, in the engine's terms, and how far one came that had to stop."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosts.words import size

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.rsync.output import Progress
    from jobs.registry import Run


@dataclass(slots=True)
class Meter:
    """Hears the progress of one copy and passes it on. `total` is in bytes, None until it is known."""

    run: Run
    label: str = ""
    total: int | None = None

    def hear(self, progress: Progress) -> None:
        """The total is known once the listing has ended and grows until then."""
        self.total = progress.bytes * 100 // progress.percent if progress.percent else self.total
        self.run.progress(progress.bytes, self.total, self.label + words(progress))

    def came_to(self, tree: Path, before: int) -> str:
        """ "63 % copied" of what lies in `tree` now; `before` is the size of the last good generation, or 0."""
        there, total = bytes_below(tree), max(self.total or 0, before)
        return f"{min(99, there * 100 // total)} % copied" if total else f"{size(there)} copied"


def words(progress: Progress) -> str:
    """ "3.4 MB/s, 120 files, 1:05 left"."""
    speed = f"{progress.speed / 1e6:.1f} MB/s"
    files = f", {progress.files_done} files" if progress.files_done is not None else ""
    eta = f", {progress.eta // 60}:{progress.eta % 60:02d} left" if progress.eta is not None else ""
    return speed + files + eta


def bytes_below(tree: Path) -> int:
    """Length of all files below `tree`; what was linked from an older generation counts, as it is there."""
    total = 0
    for folder, _, names in os.walk(os.fsencode(tree)):
        total += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
    return total
