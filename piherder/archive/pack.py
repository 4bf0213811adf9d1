"""An archive as a tar file: written in one go, read with nothing believed that the manifest does not prove.

Written in GNU's format, so that `tar` lists and unpacks it. Read header by header: a general reader would follow
links, longer names and extended headers, none of which belongs here.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import IO, TYPE_CHECKING

from piherder.archive import manifest
from piherder.archive.errors import DAMAGED, ArchiveError
from piherder.archive.manifest import Manifest, Member
from piherder.archive.shelf import private_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BLOCK = tarfile.BLOCKSIZE
CHUNK = 1 << 18


class Truncated(ArchiveError):
    """The archive ends before it should."""

    def __init__(self) -> None:
        super().__init__(DAMAGED)


class Watched(io.RawIOBase):
    """A file that calls `tick` at every read."""

    def __init__(self, file: IO[bytes], tick: Callable[[], None]) -> None:
        self._file, self._tick = file, tick

    def read(self, size: int = -1) -> bytes:
        """As the file's own. Raises what `tick` raises."""
        self._tick()
        return self._file.read(size)


def member_of(path: Path, name: str, tick: Callable[[], None]) -> Member:
    """Size and digest of a file. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as handle:
        while data := handle.read(CHUNK):
            tick()
            digest.update(data)
            size += len(data)
    return Member(name, size, digest.hexdigest())


def write(out: IO[bytes], found: Manifest, files: dict[str, Path], tick: Callable[[], None]) -> None:
    """Write the manifest and the members' files to `out`. Raises OSError."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        text = found.to_bytes()
        tar.addfile(_header(manifest.NAME, len(text)), io.BytesIO(text))
        for member in found.members:
            with files[member.name].open("rb") as handle:
                tar.addfile(_header(member.name, member.size), Watched(handle, tick))


def _header(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info


def read_manifest(source: IO[bytes]) -> Manifest:
    """The manifest, which stands first. Raises ArchiveError."""
    info = _next(source)
    if info is None or info.name != manifest.NAME:
        raise ArchiveError("This is no archive of PiHerder: its first file is no manifest.")
    if info.size > manifest.LARGEST:
        raise ArchiveError(f"Its manifest is said to have {info.size:,} bytes, which none has: do not use it.")
    data = b"".join(_content(source, info.size, lambda: None))
    return manifest.read(data)


def read_members(source: IO[bytes], found: Manifest, folder: Path, tick: Callable[[], None]) -> dict[str, Path]:
    """Put each member under a name of our own into `folder`. Raises ArchiveError or OSError."""
    wanted = {member.name: member for member in found.members}
    files: dict[str, Path] = {}
    while info := _next(source):
        member = wanted.pop(info.name, None)
        if member is None:
            raise ArchiveError(f"The archive holds a file that its manifest lacks ({info.name!r}): do not use it.")
        if info.size != member.size:
            raise ArchiveError(f"{info.name} has another size than the manifest says: take another archive.")
        files[member.name] = _extract(source, member, folder / f"member-{len(files)}", tick)
    if wanted:
        raise ArchiveError(f"The archive lacks {', '.join(sorted(wanted))}: take another one.")
    return files


def _extract(source: IO[bytes], member: Member, goal: Path, tick: Callable[[], None]) -> Path:
    digest = hashlib.sha256()
    with private_file(goal) as handle:
        for data in _content(source, member.size, tick):
            digest.update(data)
            handle.write(data)
    if digest.hexdigest() != member.sha256:
        raise ArchiveError(f"{member.name} was changed since the archive was made: take another one.")
    return goal


def _next(source: IO[bytes]) -> tarfile.TarInfo | None:
    """The next header; None at the end of the archive. Raises ArchiveError for all that is not a plain file."""
    try:
        info = tarfile.TarInfo.frombuf(_exactly(source, BLOCK), "utf-8", "surrogateescape")
    except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # typeshed leaves it out
        return None
    except tarfile.HeaderError as error:
        raise ArchiveError(DAMAGED) from error
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.size < 0:
        raise ArchiveError(f"The archive holds something that is no plain file ({info.name!r}): do not use it.")
    return info


def _content(source: IO[bytes], size: int, tick: Callable[[], None]) -> Iterator[bytes]:
    left = size
    while left:
        tick()
        data = _exactly(source, min(CHUNK, left))
        left -= len(data)
        yield data
    _exactly(source, -size % BLOCK)


def _exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) != size:
        raise Truncated
    return data
