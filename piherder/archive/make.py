"""Making one archive: dump, manifest, pack, publish, and thinning out the older ones."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from django.conf import settings
from django.utils import timezone

from jobs.patience import patiently
from piherder.archive import gpg, pack, passphrase, shelf, site
from piherder.archive.dump import dump
from piherder.archive.errors import of_system
from piherder.archive.manifest import INSIDE, NOT_INSIDE, SITE, Engine, Manifest
from piherder.archive.names import ArchiveName, next_sequence
from piherder.archive.proof import prove
from piherder.archive.shelf import PARTIAL, Archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from piherder.archive.pack import Content

BACKUP, RESTORE = "backup-", "restore-"


class Work(Protocol):
    """What the maker asks of the job it works for."""

    def step(self, name: str) -> None:
        """Begin a step; raises when the work is no longer ours."""

    def check_cancel(self) -> None:
        """Raises when the work must end."""

    def log(self, line: str) -> None:
        """A line for people."""


@dataclass(frozen=True, slots=True)
class Made:
    """A new archive, what it proves, and the names of those that went for it."""

    archive: Archive
    manifest: Manifest
    removed: list[str]


def make(work: Work, folder: Path, keep: int) -> Made:
    """Make one archive in `folder`. Raises ArchiveError; then nothing older was touched and no partial is left."""
    secret = passphrase.configured()
    if secret is not None:
        gpg.program()
    shelf.enter(folder, settings.PIHERDER_INSTALL_ID)
    shelf.remove_leftovers(folder)
    shelf.remove_leftovers(settings.DATA, BACKUP)
    name = ArchiveName(next_sequence(a.name for a in shelf.archives(folder)), timezone.now(), secret is not None)
    with workplace(settings.DATA, BACKUP) as plain:
        work.step("dump the database")
        files, found = _collect(work, plain, with_master_key=secret is not None)
        with shelf.only_whole(folder, str(name)) as partial:
            work.step("pack")
            with shelf.new_file(folder, str(name)) as out, _through(secret, out, plain, work) as pipe:
                pack.write(pipe, found, files, work.check_cancel)
            work.step("read it back")
            prove(partial, secret, plain, found, work.check_cancel)
            work.step("publish")
            path = shelf.publish(folder, str(name))
    return Made(Archive(path, name, path.stat().st_size), found, shelf.prune(folder, keep))


@contextmanager
def workplace(parent: Path, of: str) -> Iterator[Path]:
    """A private folder for what is plain, beside what is as secret; gone at the end. Raises ArchiveError.

    `of` marks whose it is, so that a killed run's is found and no other's is removed.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{of}", dir=parent))
    except OSError as error:
        raise of_system(error, parent) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _through(secret: bytes | None, out: IO[bytes], plain: Path, work: Work) -> Iterator[IO[bytes]]:
    """`out`, or the way through gpg to it."""
    if secret is None:
        yield out
        return
    with gpg.encrypting(out, secret, plain / "gnupg", work.check_cancel) as pipe:
        yield pipe


def _collect(work: Work, folder: Path, *, with_master_key: bool) -> tuple[dict[str, Content], Manifest]:
    """The members of an archive and its manifest. Raises ArchiveError.

    The key may be changed while a long dump is made, which holds what was sealed before: all keys that were in effect
    at its beginning or are at its end belong to it. Keys go from memory into the archive and into no file.
    """
    before = site.master_keys()
    dumped, engine = dump(folder, work.check_cancel)
    keys = tuple(dict.fromkeys((*site.master_keys(), *before)))
    members: dict[str, Content] = {dumped.name: dumped}
    for name, content in site.values(keys if with_master_key else ()).items():
        members[f"{SITE}{name}"] = f"{content}\n".encode()
    try:
        return members, _manifest(work, members, engine, keys, with_master_key=with_master_key)
    except OSError as error:
        raise of_system(error, folder) from error


def _manifest(
    work: Work, members: dict[str, Content], engine: Engine, keys: tuple[str, ...], *, with_master_key: bool
) -> Manifest:
    return Manifest(
        piherder=site.version(),
        commit=site.commit(),
        created_at=timezone.now().isoformat(timespec="seconds"),
        install_id=settings.PIHERDER_INSTALL_ID,
        database=engine,
        migrations=patiently(site.migrations, work.check_cancel),
        master_key=INSIDE if with_master_key else NOT_INSIDE,
        master_key_fingerprints=site.fingerprints(keys),
        counts=patiently(site.counts, work.check_cancel),
        members=[pack.member_of(content, name, work.check_cancel) for name, content in members.items()],
    )
