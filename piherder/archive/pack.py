"""An archive as a tar file: written in one go, read with nothing believed that the manifest does not prove.

Written in GNU's format, so that `tar` lists and unpacks it. Read header by header: a general reader would follow
links, longer names and extended headers, none of which belongs here.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from piherder.archive import manifest
from piherder.archive.errors import DAMAGED, ArchiveError
from piherder.archive.manifest import Manifest, Member
from piherder.archive.shelf import private_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BLOCK = tarfile.BLOCKSIZE
CHUNK = 1 << 18
Content = Path | bytes  # of a member: a file, or what shall never be one


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


def reader(content: Content) -> IO[bytes]:
    """A member's content, opened. Raises OSError."""
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


def member_of(content: Content, name: str, tick: Callable[[], None]) -> Member:
    """Size and digest of a member. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with reader(content) as handle:
        while data := handle.read(CHUNK):
            tick()
            digest.update(data)
            size += len(data)
    return Member(name, size, digest.hexdigest())


def write(out: IO[bytes], found: Manifest, files: Mapping[str, Content], tick: Callable[[], None]) -> None:
    """Write the manifest and the members to `out`. Raises OSError."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        text = found.to_bytes()
        tar.addfile(_header(manifest.NAME, len(text)), io.BytesIO(text))
        for member in found.members:
            with reader(files[member.name]) as handle:
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
    files: dict[str, Path] = {}
    for member in _members(source, found):
        goal = files[member.name] = folder / f"member-{len(files)}"
        with private_file(goal) as handle:
            _take(source, member, handle.write, tick)
    return files


def prove_members(source: IO[bytes], found: Manifest, tick: Callable[[], None]) -> None:
    """Read each member and keep nothing. Raises ArchiveError for one that is not as the manifest says."""
    for member in _members(source, found):
        _take(source, member, lambda _data: None, tick)


def _members(source: IO[bytes], found: Manifest) -> Iterator[Member]:
    """Each member as its header comes; whoever asks takes the content before the next. Raises ArchiveError."""
    wanted = {member.name: member for member in found.members}
    while info := _next(source):
        member = wanted.pop(info.name, None)
        if member is None:
            raise ArchiveError(f"The archive holds a file that its manifest lacks ({info.name!r}): do not use it.")
        if info.size != member.size:
            raise ArchiveError(f"{info.name} has another size than the manifest says: take another archive.")
        yield member
    if wanted:
        raise ArchiveError(f"The archive lacks {', '.join(sorted(wanted))}: take another one.")


def _take(source: IO[bytes], member: Member, write: Callable[[bytes], object], tick: Callable[[], None]) -> None:
    digest = hashlib.sha256()
    for data in _content(source, member.size, tick):
        digest.update(data)
        write(data)
    if digest.hexdigest() != member.sha256:
        raise ArchiveError(f"{member.name} was changed since the archive was made: take another one.")


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
