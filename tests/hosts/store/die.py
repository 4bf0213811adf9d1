"""`python -m tests.hosts.store.die ROOT STEP`: writes generation 2 after generation 1 and kills itself at STEP."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from hosts.store import layout, manifest
from tests.hosts.store.build import info, source_dir, sums, write


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(step: str) -> None:
    """The hook of `publish`."""
    if step == sys.argv[2]:
        die()


def main() -> None:
    """One run, up to the step it dies at."""
    folder, wanted = source_dir(Path(sys.argv[1])), sys.argv[2]
    partial = layout.take_over(folder, "killed")
    previous = layout.list_generations(folder)[-1].path
    os.link(previous / layout.TREE / "same", partial.tree / "same")
    write(partial.tree / "new", b"second")
    die_at("transfer")
    if wanted == "manifest":
        manifest.write_manifest(partial.tree, {}, None, partial.path / layout.MANIFEST)
        die()
    record, _totals = layout.seal(partial, info(2), sums(partial.tree), previous)
    die_at("sealed")
    layout.publish(partial, folder / record.folder_name, die_at)
    if wanted.startswith("trash"):
        ticks = iter(range(int(wanted[5:])))
        layout.trash(previous, tick=lambda: die() if next(ticks, None) is None else None)


if __name__ == "__main__":
    main()
