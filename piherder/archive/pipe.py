"""One program's output into another's input, in one transaction that ends only when all of it went through.

The COMMIT is sent by us, after the program that reads the dump has said that the dump was whole. Whatever is killed
or cut off before that, psql comes to the end of its input within a transaction, and the server rolls it back.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from hosts.rsync.process import DIE_WITH_PARENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# pg_dump and pg_restore from 17 on write it always, and servers up to 16 know no such setting. It says "no limit",
# which is the default.
UNKNOWN_TO_OLDER = b"SET transaction_timeout = 0;\n"
HEAD = (b"--", b"SET ", b"SELECT pg_catalog.set_config(", b"\\restrict ")
CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Said:
    """How a program ended, and what it had to say about it."""

    code: int
    text: str


def pour(
    reader: Sequence[str], writer: Sequence[str], before: str, after: str, environment: Mapping[str, str]
) -> tuple[Said, Said]:
    """Run both; how `reader` and `writer` ended. Nothing is committed unless both ended with 0.

    Raises OSError when one cannot be started.
    """
    with (
        TemporaryFile() as read_said,
        TemporaryFile() as write_said,
        _started(reader, environment, subprocess.DEVNULL, subprocess.PIPE, read_said) as source,
        _started(writer, environment, subprocess.PIPE, subprocess.DEVNULL, write_said) as sink,
    ):
        try:
            with suppress(BrokenPipeError):  # it ended at an error, which it has told
                _feed(source, sink, before, after)
        except BaseException:
            sink.kill()
            source.kill()
            raise
        return Said(source.wait(), _text(read_said)), Said(sink.wait(), _text(write_said))


def _started(
    words: Sequence[str], environment: Mapping[str, str], stdin: int, stdout: int, said: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*DIE_WITH_PARENT, *words], env=dict(environment), stdin=stdin, stdout=stdout, stderr=said, process_group=0
    )


def _feed(source: subprocess.Popen[bytes], sink: subprocess.Popen[bytes], before: str, after: str) -> None:
    """Raises BrokenPipeError when the sink takes no more."""
    assert source.stdout is not None
    assert sink.stdin is not None
    try:
        sink.stdin.write(f"BEGIN;\n{before}\n".encode())
        sink.stdin.writelines(understood(source.stdout))
        shutil.copyfileobj(source.stdout, sink.stdin, CHUNK)
        if source.wait() == 0:
            sink.stdin.write(f"\n{after}\nCOMMIT;\n".encode())
    finally:
        source.stdout.close()
        sink.stdin.close()


def understood(dump: IO[bytes]) -> Iterator[bytes]:
    """The head of a dump, up to and with its first line that sets nothing, without what older servers do not know.

    Only there: the same words may stand in a row of a table.
    """
    for line in dump:
        if line != UNKNOWN_TO_OLDER:
            yield line
        if line.strip() and not line.startswith(HEAD):
            return


def _text(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode(errors="replace")
