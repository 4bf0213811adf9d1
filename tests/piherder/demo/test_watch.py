"""Counting rsyncs: real ones, and process tables that no test can bring about at will."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from piherder.demo import watch
from piherder.demo.proof import Disproved, require_one_rsync
from piherder.demo.watch import Watch
from piherder.house.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SENDER = ["rsync", "--server", "--sender", "-logDtpre.iLsfxCIvu", ".", "/etc/hostname"]


@contextmanager
def sender() -> Iterator[int]:
    """The host side of a backup, which waits for its client on a pipe."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(SENDER, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet) as process:
        assert wait_until(lambda: process.pid in watch.servers(), 5)
        try:
            yield process.pid
        finally:
            process.kill()


def seen(*pids: int) -> Watch:
    return Watch({"attic": lambda pid: pid in pids, "porch": lambda pid: False})


def test_one_rsync_is_counted_as_one_on_its_own_host() -> None:
    with sender() as pid:
        counter = seen(pid)
        counter.look()
    assert (counter.peaks, counter.looks) == ({"attic": 1, "porch": 0}, 1)


def test_a_second_rsync_is_seen_and_disproves() -> None:
    with sender() as one, sender() as two:
        counter = seen(one, two)
        counter.look()
    with pytest.raises(Disproved, match="2 rsyncs ran on attic"):
        require_one_rsync(counter.peaks, "now")


def test_the_peak_stays_when_the_rsync_has_ended() -> None:
    with sender() as pid:
        counter = seen(pid)
        counter.look()
    counter.look()
    found = counter.counts["attic"]
    assert (found.now, found.peak, found.busy) == (0, 1, 1)


def test_it_looks_by_itself_until_stopped() -> None:
    counter = seen()
    counter.start()
    assert wait_until(lambda: counter.looks > 2, 5)
    counter.stop()
    looks = counter.looks
    counter.stop()
    assert counter.looks == looks


def process(proc: Path, pid: int, words: str, state: str = "S", parent: int = 1) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(words.replace(" ", "\0").encode())
    (folder / "stat").write_text(f"{pid} (rs) ync) {state} {parent} 0 0\n")


def test_clients_locks_shells_and_zombies_are_no_rsync_on_a_host(tmp_path: Path) -> None:
    process(tmp_path, 10, "/usr/bin/rsync --server --sender . /srv")
    process(tmp_path, 11, "rsync -aHAX attic:/srv/ /backup/")
    process(tmp_path, 12, "flock -n /etc rsync --server --sender . /srv")
    process(tmp_path, 13, "sh -c rsync --server")
    process(tmp_path, 14, "rsync --server . /srv", state="Z")
    (tmp_path / "15").mkdir()
    (tmp_path / "self").mkdir()
    assert watch.servers(tmp_path) == {10: 1}


def test_the_fork_of_a_receiver_is_no_second_run(tmp_path: Path) -> None:
    process(tmp_path, 20, "rsync --server . /srv", parent=2)
    process(tmp_path, 21, "rsync --server . /srv", parent=20)
    process(tmp_path, 30, "rsync --server . /srv", parent=3)
    assert watch.runs(watch.servers(tmp_path)) == {20, 30}
