"""Encryption by the real gpg."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.models import Failure
from piherder.archive import gpg, passphrase
from piherder.archive.errors import ArchiveError
from tests.hosts.rsync.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = b"correct horse"
PLAIN = os.urandom(1 << 20) * 2


def no_tick() -> None:
    """Nobody cancels."""


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """2 MiB, encrypted."""
    path = tmp_path / "locked"
    with path.open("wb") as goal, gpg.encrypting(goal, SECRET, tmp_path / "home", no_tick) as pipe:
        pipe.write(PLAIN)
    return path


def opened(path: Path, secret: bytes = SECRET, amount: int = -1) -> bytes:
    """What is behind it."""
    with path.open("rb") as source, gpg.decrypting(source, secret, path.parent / "home", no_tick) as pipe:
        return pipe.read(amount)


def test_what_was_locked_opens_again(locked: Path) -> None:
    assert b"PLAIN" not in locked.read_bytes()
    assert opened(locked) == PLAIN
    assert opened(locked, amount=10) == PLAIN[:10]


def test_no_agent_and_no_program_is_left(locked: Path, tmp_path: Path) -> None:
    opened(locked)
    assert wait_until(lambda: not pids_naming(tmp_path), 5)


def test_a_person_opens_it_by_hand(locked: Path, tmp_path: Path) -> None:
    argv = ["gpg", "--homedir", str(tmp_path / "home"), "--batch", "--no-autostart", "--pinentry-mode", "loopback"]
    done = subprocess.run([*argv, "--passphrase-fd", "0", "-d", str(locked)], input=SECRET + b"\n", capture_output=True)
    assert (done.returncode, done.stdout) == (0, PLAIN)


def test_it_is_aes256_behind_a_slow_key(locked: Path, tmp_path: Path) -> None:
    argv = ["gpg", "--homedir", str(tmp_path / "home"), "--batch", "--list-packets", "--pinentry-mode", "cancel"]
    said = subprocess.run([*argv, "--no-autostart", str(locked)], capture_output=True, text=True).stdout
    assert "cipher 9, aead 0,s2k 3, hash 10" in said
    assert "count 65011712" in said


def test_another_passphrase_is_refused_in_words(locked: Path) -> None:
    with pytest.raises(ArchiveError, match="The passphrase does not open this archive") as refused:
        opened(locked, b"wrong one")
    assert refused.value.code == Failure.REFUSED
    assert "wrong" not in str(refused.value)


@pytest.mark.parametrize("where", [0.3, 0.9999])
def test_a_changed_byte_is_found(locked: Path, where: float) -> None:
    data = bytearray(locked.read_bytes())
    data[int(len(data) * where)] ^= 1
    locked.write_bytes(data)
    with pytest.raises(ArchiveError, match="damaged or incomplete"):
        opened(locked)


def test_a_missing_end_is_found(locked: Path) -> None:
    os.truncate(locked, locked.stat().st_size - 50)
    with pytest.raises(ArchiveError, match="damaged or incomplete"):
        opened(locked)


def pids_naming(word: Path) -> list[int]:
    """Programs whose command line names this path."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if bytes(word) in file.read_bytes():
                found.append(int(file.parent.name))
    return found


def pid_of_gpg(word: Path) -> int:
    """The one gpg that works in this folder; while a program is being replaced by exec its command line is empty."""

    found: list[int] = []

    def is_there() -> bool:
        found[:] = [pid for pid in pids_naming(word) if Path(f"/proc/{pid}/comm").read_text() == "gpg\n"]
        return bool(found)

    assert wait_until(is_there, 30)
    (pid,) = found
    return pid


def test_the_passphrase_is_in_no_argument_and_no_environment(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as goal, gpg.encrypting(goal, SECRET, tmp_path / "home", no_tick) as pipe:
        pipe.write(b"x")
        pid = pid_of_gpg(tmp_path)
        for name in ("cmdline", "environ"):
            assert SECRET not in Path(f"/proc/{pid}/{name}").read_bytes()


def lock(tmp_path: Path, during: Callable[[], None]) -> None:
    """Encrypt a lot; `during` comes in the middle."""
    with (tmp_path / "x").open("wb") as goal, gpg.encrypting(goal, SECRET, tmp_path / "home", no_tick) as pipe:
        pipe.write(b"x")
        during()
        for _ in range(20):
            pipe.write(PLAIN)


def test_a_stop_ends_gpg_at_once(tmp_path: Path) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        lock(tmp_path, stop)
    assert not pids_naming(tmp_path)


def test_a_gpg_that_dies_is_told(tmp_path: Path) -> None:
    def kill() -> None:
        os.kill(pid_of_gpg(tmp_path), signal.SIGKILL)

    with pytest.raises(ArchiveError, match="gpg failed: it gave no reason"):
        lock(tmp_path, kill)


def test_without_gpg_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ArchiveError, match="sudo apt install gpg"):
        gpg.program()


def secret_file(tmp_path: Path, content: bytes, mode: int = 0o600) -> Path:
    path = tmp_path / "passphrase"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_the_first_line_is_the_passphrase(tmp_path: Path) -> None:
    assert passphrase.read(secret_file(tmp_path, b"  a phrase \r\nnot this\n")) == b"  a phrase "


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o602])
def test_a_passphrase_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ArchiveError, match=r"Others can read the passphrase file .*: chmod 600") as refused:
        passphrase.read(secret_file(tmp_path, b"geheim\n", mode))
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"\nsecond\n", b"x" * 1001, b"a\0b\n"])
def test_what_is_no_passphrase_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ArchiveError, match="must be the passphrase"):
        passphrase.read(secret_file(tmp_path, content))


def test_a_passphrase_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"The passphrase file .* cannot be used \(No such file"):
        passphrase.read(tmp_path / "none")
