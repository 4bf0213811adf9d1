"""The master keys in a file, followed while a process runs."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from piherder import env
from piherder.house.folder import CLONE
from piherder.key_file import KeyFile


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "master.key")


def test_without_a_file_there_is_no_key(keys: KeyFile) -> None:
    assert (list(keys), len(keys), bool(keys)) == ([], 0, False)


def test_one_key_a_line_the_newest_first(keys: KeyFile) -> None:
    keys.path.write_text("new\n old \n\nolder\n")
    assert list(keys) == ["new", "old", "older"]
    assert (keys[0], keys[1:], len(keys)) == ("new", ("old", "older"), 3)


def test_a_file_that_comes_or_is_replaced_is_read_again(keys: KeyFile) -> None:
    assert not keys
    keys.put(["first"])
    assert list(keys) == ["first"]
    keys.put(["again"])
    assert list(keys) == ["again"]


def test_another_object_of_the_same_file_follows_too(keys: KeyFile) -> None:
    keys.put(["first"])
    other = KeyFile(keys.path)
    assert list(other) == ["first"]
    keys.put(["second", "first"])
    assert list(other) == ["second", "first"]


def test_the_file_is_read_only_when_it_changed(keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.put(["first"])
    assert list(keys) == ["first"]
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("it was read again"))
    assert list(keys) == ["first"]


@pytest.mark.parametrize("content", [b"", b"\n", b"caf\xe9"])
def test_a_running_process_keeps_what_it_has_read(keys: KeyFile, content: bytes) -> None:
    keys.put(["first"])
    assert list(keys) == ["first"]
    keys.path.write_bytes(content)
    assert list(keys) == ["first"]
    keys.path.unlink()
    assert list(keys) == ["first"]


def test_the_file_is_its_owners_alone_whatever_the_process_allows(keys: KeyFile) -> None:
    before = os.umask(0)
    try:
        keys.put(["first"])
    finally:
        os.umask(before)
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert [path.name for path in keys.path.parent.iterdir()] == ["master.key"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a file for another user")
def test_root_at_a_shell_leaves_the_file_to_the_folders_owner(keys: KeyFile) -> None:
    os.chown(keys.path.parent, 12345, 12346)
    keys.put(["first"])
    found = keys.path.stat()
    assert (found.st_uid, found.st_gid) == (12345, 12346)


def test_no_text_of_it_shows_a_key(keys: KeyFile) -> None:
    keys.put(["PLANTED"])
    assert list(keys) == ["PLANTED"]
    assert "PLANTED" not in f"{keys!r} {keys}"


KILLED = """
import os, signal, sys
from pathlib import Path
from piherder.key_file import KeyFile
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
KeyFile(Path(sys.argv[1])).put(["new", "old"])
"""


def test_a_put_that_was_killed_leaves_the_old_keys_and_a_draft_that_can_be_cleared(keys: KeyFile) -> None:
    keys.put(["old"])
    (keys.path.parent / ".master.key.notes").write_text("a person's")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(keys.path)], cwd=CLONE, env=env.child_environment(), timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    assert list(KeyFile(keys.path)) == ["old"]
    assert keys.clear_drafts() == 1
    assert sorted(path.name for path in keys.path.parent.iterdir()) == [".master.key.notes", "master.key"]
