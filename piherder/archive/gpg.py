"""Encryption with a passphrase by the system's gpg, so that a person can open an archive with `gpg --decrypt` too.

What is plain goes through pipes only. The passphrase goes through one as well; gpg starts no agent for it and uses a
home folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from hosts.rsync.process import DIE_WITH_PARENT
from jobs.models import Failure
from piherder import env
from piherder.archive.errors import DAMAGED, ArchiveError, of_program
from piherder.archive.pack import Truncated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Each value is gpg's own strongest for a passphrase; a given count keeps gpg from asking an agent for one (gpg(1)).
ENCRYPT = (
    *("--symmetric", "--cipher-algo", "AES256", "--s2k-mode", "3"),
    *("--s2k-digest-algo", "SHA512", "--s2k-count", "65011712"),
    *("--compress-algo", "none"),  # the dump is compressed already
)
BROKEN = ("manipulated", "no valid OpenPGP data", "unexpected end of file", "invalid packet", "block_filter", "zlib")
LONGEST_REST = 64 << 20  # bytes that may follow what was read
TICK = 0.25  # seconds
CHUNK = 1 << 20


def program() -> str:
    """Path of gpg. Raises ArchiveError naming the package."""
    found = shutil.which("gpg")
    if found is None:
        raise ArchiveError("Encrypted archives need gpg: sudo apt install gpg", Failure.REFUSED)
    return found


@contextmanager
def encrypting(goal: IO[bytes], passphrase: bytes, home: Path, tick: Callable[[], None]) -> Iterator[IO[bytes]]:
    """What is written to the pipe lands encrypted in the open file `goal`. Raises ArchiveError.

    `home` is a folder for gpg's own files, removed by whoever gave it.
    """
    with _gpg(ENCRYPT, passphrase, home, tick, stdin=subprocess.PIPE, stdout=goal) as process:
        assert process.stdin is not None
        yield process.stdin
        process.stdin.close()


@contextmanager
def decrypting(source: IO[bytes], passphrase: bytes, home: Path, tick: Callable[[], None]) -> Iterator[IO[bytes]]:
    """The plain text of the open file `source`, to be trusted only when the block has ended. Raises ArchiveError."""
    with _gpg(("--decrypt",), passphrase, home, tick, stdin=source, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        except Truncated:  # most often because gpg has given up, and then it says why
            _wait(process, tick)
            if not process.returncode:
                raise
        else:
            _drain(process.stdout, tick)


@contextmanager
def opened(source: IO[bytes], passphrase: bytes | None, home: Path, tick: Callable[[], None]) -> Iterator[IO[bytes]]:
    """The open file `source` itself where there is no passphrase, else its plain text as from `decrypting`."""
    if passphrase is None:
        yield source
        return
    with decrypting(source, passphrase, home, tick) as plain:
        yield plain


def _drain(pipe: IO[bytes], tick: Callable[[], None]) -> None:
    """gpg says whether the text is whole only at its end."""
    left = LONGEST_REST
    while data := pipe.read(CHUNK):
        tick()
        left -= len(data)
        if left < 0:
            raise ArchiveError("Far more follows behind the end of the archive than any has: do not use it.")


@contextmanager
def _gpg(
    words: tuple[str, ...],
    passphrase: bytes,
    home: Path,
    tick: Callable[[], None],
    *,
    stdin: IO[bytes] | int,
    stdout: IO[bytes] | int,
) -> Iterator[subprocess.Popen[bytes]]:
    """gpg while the block runs; then its exit code is judged. It never outlives the block."""
    home.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryFile() as said:
        with _readable(passphrase) as secret:
            process = subprocess.Popen(
                [*DIE_WITH_PARENT, *command(home, secret), *words],
                env={"PATH": env.text("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
                pass_fds=[secret], stdin=stdin, stdout=stdout, stderr=said,
            )  # fmt: skip
        gave_up = False
        try:
            try:
                yield process
            except BrokenPipeError:  # it says why below
                gave_up = True
            _wait(process, tick)
        finally:
            _end(process)
        said.seek(0)
        if process.returncode or gave_up:
            raise failure(said.read(CHUNK).decode(errors="replace"), "the archive")


def command(home: Path, secret: int) -> list[str]:
    """gpg's command line, all but the action; the passphrase is read from the descriptor `secret`."""
    return [
        program(), "--homedir", str(home), "--no-options", "--batch", "--no-tty", "--quiet", "--no-autostart",
        "--pinentry-mode", "loopback", "--no-symkey-cache", "--passphrase-fd", str(secret),
    ]  # fmt: skip


@contextmanager
def _readable(passphrase: bytes) -> Iterator[int]:
    """A pipe that holds the passphrase as one line (a pipe takes 64 KiB without a reader, pipe(7))."""
    reading, writing = os.pipe()
    try:
        os.write(writing, passphrase + b"\n")
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


def _wait(process: subprocess.Popen[bytes], tick: Callable[[], None]) -> None:
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(TICK)
            return
        tick()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def failure(said: str, place: str) -> ArchiveError:
    """What gpg said, as one sentence."""
    if "Bad session key" in said or "bad passphrase" in said.lower():
        return ArchiveError("The passphrase does not open this archive.", Failure.REFUSED)
    if any(words in said for words in BROKEN):
        return ArchiveError(DAMAGED)
    return of_program("gpg", said, place)
