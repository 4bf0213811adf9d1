"""The locks of a host's folder on the backup disk."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hosts.store.lock import COPY_LOCK, JOB_LOCK, FolderBusy, FolderUnusable, host_folder
from tests.hosts.families.conftest import full_disk
from tests.hosts.rsync.conftest import needs_root

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["full_disk"]
BUSY = r"Another copy works in pi1's backup folder on this server\."


def is_free(path: Path, how: int = os.O_RDWR) -> bool:
    descriptor = os.open(path, how)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with host_folder(tmp_path, "pi1") as folder:
        assert (folder, folder.stat().st_mode & 0o777) == (tmp_path / "pi1", 0o700)
        assert (folder / JOB_LOCK).stat().st_mode & 0o777 == 0o600


def test_inside_rsync_may_copy_but_no_other_job_may_begin(tmp_path: Path) -> None:
    with host_folder(tmp_path, "pi1") as folder:
        assert (is_free(folder / JOB_LOCK), is_free(folder / COPY_LOCK)) == (False, True)
    assert is_free(folder / JOB_LOCK)


def test_a_second_job_is_refused_in_words(tmp_path: Path) -> None:
    with host_folder(tmp_path, "pi1"), pytest.raises(FolderBusy, match=BUSY), host_folder(tmp_path, "pi1"):
        pytest.fail("two at once")


def test_another_host_is_not_in_the_way(tmp_path: Path) -> None:
    with host_folder(tmp_path, "pi1"), host_folder(tmp_path, "pi2"):
        assert (tmp_path / "pi2").is_dir()


def test_an_rsync_that_is_left_over_keeps_the_next_job_away(tmp_path: Path) -> None:
    (tmp_path / "pi1").mkdir()
    left = subprocess.Popen(
        ["flock", "--no-fork", str(tmp_path / "pi1" / COPY_LOCK), "sh", "-c", "echo held; read x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with left:
        assert left.stdout is not None
        assert left.stdout.readline() == b"held\n"
        with pytest.raises(FolderBusy, match=BUSY), host_folder(tmp_path, "pi1"):
            pytest.fail("two at once")
        left.communicate()
    with host_folder(tmp_path, "pi1"):
        assert is_free(tmp_path / "pi1" / COPY_LOCK)


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:  # case C19
    code = "import os, sys; from pathlib import Path; from hosts.store.lock import host_folder\n"
    code += "with host_folder(Path(sys.argv[1]), 'pi1'): os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == -9
    with host_folder(tmp_path, "pi1") as folder:
        assert folder.is_dir()


def test_a_program_started_inside_does_not_keep_the_lock(tmp_path: Path) -> None:
    with host_folder(tmp_path, "pi1") as folder:
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    with child:
        assert is_free(folder / JOB_LOCK)
        child.communicate()


def test_a_folder_that_cannot_be_locked_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "pi1").write_text("no folder")
    words = f"The backup folder {tmp_path}/pi1 cannot be locked: File exists."
    with pytest.raises(FolderUnusable, match=re.escape(words)), host_folder(tmp_path, "pi1"):
        pytest.fail("no folder")


def test_an_error_of_the_block_is_not_taken_for_one_of_the_lock(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="of the block"), host_folder(tmp_path, "pi1"):
        raise OSError("of the block")


@needs_root
def test_a_disk_that_can_only_be_read_is_locked_for_one_who_reads(full_disk: Path) -> None:
    with host_folder(full_disk, "pi1"):
        pass
    subprocess.run(["mount", "-o", "remount,ro", str(full_disk)], check=True)
    with pytest.raises(FolderUnusable, match="Read-only file system"), host_folder(full_disk, "pi1"):
        pytest.fail("not for a reader")
    with host_folder(full_disk, "pi1", reads=True) as folder:
        assert not is_free(folder / JOB_LOCK, os.O_RDONLY)
        with pytest.raises(FolderBusy), host_folder(full_disk, "pi1", reads=True):
            pytest.fail("two at once")


def test_what_the_block_raises_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError, match="of the block"), host_folder(tmp_path, "pi1"):
        raise BlockingIOError("of the block")
