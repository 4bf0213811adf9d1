"""What is written reaches the disk, and what the disk says of it is heard."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING

import pytest

from hosts.store import layout, syncing
from hosts.store.syncing import sync_ahead, sync_filesystem
from tests.hosts.store.build import info, write_partial

if TYPE_CHECKING:
    from pathlib import Path


class Stopped(Exception):
    pass


def stop() -> None:
    raise Stopped


def test_syncing_a_path_that_is_gone_says_so(tmp_path: Path) -> None:
    sync_filesystem(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_filesystem(tmp_path / "gone")


def test_what_fails_beside_is_said_at_the_end(tmp_path: Path) -> None:
    done = []
    with pytest.raises(FileNotFoundError), sync_ahead(tmp_path / "gone"):
        done.append("block")
    assert done == ["block"]


def test_a_block_that_fails_says_its_own(tmp_path: Path) -> None:
    with pytest.raises(Stopped), sync_ahead(tmp_path / "gone"):
        stop()


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A disk that is done with a sync when the event says so."""
    done = threading.Event()
    monkeypatch.setattr(syncing, "sync_filesystem", lambda _path: done.wait(60))
    return done


def test_the_block_does_not_wait_but_its_end_does(tmp_path: Path, slow_disk: threading.Event) -> None:
    with sync_ahead(tmp_path):
        beside = next(thread for thread in threading.enumerate() if thread.name == "sync-ahead")
        slow_disk.set()
    assert not beside.is_alive()


def test_a_stop_does_not_wait_for_the_disk(tmp_path: Path, slow_disk: threading.Event) -> None:
    with pytest.raises(Stopped), sync_ahead(tmp_path, stop):
        pass
    slow_disk.set()


def test_a_partial_whose_disk_fails_is_not_sealed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    partial = write_partial(root, "one", {"a": b"1"})
    monkeypatch.setattr(syncing, "sync_filesystem", broken)
    with pytest.raises(OSError, match="Input/output error"):
        layout.seal(partial, info(1), {}, None)
    assert not (partial.path / layout.INFO).exists()
