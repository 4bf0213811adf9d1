"""What is read from /proc about a tree of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bench import proc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IO = "rchar: 5\nwchar: 7\nread_bytes: 0\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"
ROLLUP = "56-7f ---p 00000000 00:00 0      [rollup]\nRss:      1756 kB\nPss:        215 kB\nPss_Dirty:  112 kB\n"
PARENT = "import subprocess, sys; subprocess.run(['sleep', '60'], stdin=subprocess.DEVNULL)"


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child, both gone afterwards."""
    with subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True) as process:
        yield process
        os.killpg(process.pid, 9)


@pytest.mark.parametrize(("text", "name", "number"), [(IO, "write_bytes", 4096), (ROLLUP, "Pss", 215), (IO, "Pss", 0)])
def test_a_field_is_read_by_its_whole_name(text: str, name: str, number: int) -> None:
    assert proc.field(text, name) == number


def test_a_family_holds_its_children(parent: subprocess.Popen[bytes]) -> None:
    while "sleep 60" not in map(proc.name, proc.family(parent.pid)):  # a child begins with its parent's name
        assert parent.poll() is None
    assert proc.family(parent.pid)[0] == parent.pid


def test_what_a_child_wrote_counts_for_its_parent_when_it_has_ended(tmp_path: Path) -> None:
    before = proc.written([os.getpid()])
    script = "import os, sys; f = open(sys.argv[1], 'wb'); f.write(bytes(1 << 20)); f.flush(); os.fsync(f.fileno())"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "file")], check=True)
    grown = proc.written([os.getpid()]) - before
    on_disk = os.statvfs(tmp_path).f_fsid != os.statvfs("/dev/shm").f_fsid
    assert grown >= 1 << 20 or not on_disk


def test_memory_of_this_process_is_more_than_an_interpreter_needs() -> None:
    assert 4 << 20 < proc.memory([os.getpid()]) < 4 << 30


def test_processes_that_are_gone_count_for_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert (proc.written([gone.pid]), proc.memory([gone.pid]), proc.name(gone.pid)) == (0, 0, "")


def test_processor_time_grows_with_work_and_a_process_that_is_gone_took_none() -> None:
    before = proc.seconds([os.getpid()])
    while proc.seconds([os.getpid()]) < before + 0.05:
        pass
    assert proc.seconds([2**22 + 1]) == 0
