"""What a tree of processes costs, from /proc: bytes it made the disk write, and the memory that is its own share."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def field(text: str, name: str) -> int:
    """The number behind `name:` in a file of /proc such as io or smaps_rollup; 0 when it is not there."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    return 0


def family(root: int) -> list[int]:
    """`root` and all its descendants that are alive."""
    found = [root]
    for pid in found:
        with suppress(OSError):
            for task in (PROC / str(pid) / "task").iterdir():
                found += [int(word) for word in (task / "children").read_text().split()]
    return found


def _sum(pids: list[int], file: str, name: str) -> int:
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += field((PROC / str(pid) / file).read_text(), name)
    return total


def written(pids: list[int]) -> int:
    """Bytes that these processes, and children of theirs that ended, sent to a disk (proc_pid_io(5), write_bytes).

    The kernel counts a page when it becomes dirty; a journal that the file system writes itself is not in it.
    """
    return _sum(pids, "io", "write_bytes")


def memory(pids: list[int]) -> int:
    """Bytes of memory, each page shared with others counted by its share (smaps_rollup, Pss)."""
    return 1024 * _sum(pids, "smaps_rollup", "Pss")


def seconds(pids: list[int]) -> float:
    """Seconds of processor time, of these processes and of children they have waited for (proc_pid_stat(5))."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            ticks += sum(map(int, (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def name(pid: int) -> str:
    """The command line, shortened; "" when the process is gone."""
    with suppress(OSError):
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join(word.rpartition("/")[2] for word in words[:6]).strip()
    return ""
