"""A new archive is read back before it counts, and holds every key that what is in it needs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as live

from hosts.models import Credential
from hosts.vault import fingerprint_of, opens
from piherder import rotation
from piherder.archive import dump as dumping
from piherder.archive import make as making
from piherder.archive import shelf, unpack
from piherder.archive.errors import ArchiveError
from piherder.archive.make import make
from piherder.key_file import KeyFile
from tests.factories import make_host
from tests.piherder.archive.played import Played

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from piherder.archive.manifest import Engine
    from tests.piherder.archive.conftest import Herder

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = b"correct horse"
BACK = "read it back"


def partial(herder: Herder) -> Path:
    (found,) = herder.folder.glob(f"{shelf.PARTIAL}*")
    return found


def flip(path: Path) -> None:
    """One bit in the middle goes over."""
    with path.open("r+b") as handle:
        handle.seek(path.stat().st_size // 2)
        byte = handle.read(1)
        handle.seek(-1, os.SEEK_CUR)
        handle.write(bytes([byte[0] ^ 1]))


def cut(path: Path) -> None:
    """The second half is missing."""
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    """Nothing is there but room."""
    size = path.stat().st_size
    path.write_bytes(b"\0" * size)


@pytest.mark.parametrize("fault", [flip, cut, empty])
@pytest.mark.parametrize("encrypted", [False, True])
def test_an_archive_that_does_not_read_back_is_none(
    herder: Herder, fault: Callable[[Path], None], encrypted: bool
) -> None:
    if encrypted:
        herder.encrypt()
    first = make(Played(), herder.folder, 1)

    def spoil(step: str) -> None:
        if step == BACK:
            fault(partial(herder))

    with pytest.raises(ArchiveError, match=r"does not read back from .*: look at that disk; the older archives are"):
        make(Played(spoil), herder.folder, 1)
    assert [each.path for each in herder.archives()] == [first.archive.path]
    assert herder.leftovers() == []
    assert make(Played(), herder.folder, 1).removed == [first.archive.path.name]


def test_another_archive_in_its_place_is_none(herder: Herder) -> None:
    first = make(Played(), herder.folder, 3)
    make_host("pi1")

    def exchange(step: str) -> None:
        if step == BACK:
            partial(herder).write_bytes(first.archive.path.read_bytes())

    with pytest.raises(ArchiveError, match="its manifest is another one"):
        make(Played(exchange), herder.folder, 3)


def test_a_dump_that_does_not_open_makes_no_archive(herder: Herder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, tick: Callable[[], None]) -> tuple[Path, Engine]:
        goal, engine = dumping.dump(folder, tick)
        goal.write_bytes(goal.read_bytes()[:100])
        return goal, engine

    monkeypatch.setattr(making, "dump", broken)
    with pytest.raises(ArchiveError, match="does not read back"):
        make(Played(), herder.folder, 3)
    assert (herder.archives(), herder.leftovers()) == ([], [])


# --- keys


def change_the_key(keys: KeyFile) -> None:
    """Both steps of a rotation, the second after a minute."""
    rotation.rotate()
    then = time.time() - rotation.SETTLED - 1
    os.utime(keys.path, (then, then))
    rotation.finish()


@pytest.fixture
def key_file(herd: Herder) -> KeyFile:
    """The keys of this installation in a file of its own."""
    keys = KeyFile(herd.data / "master.key")
    keys.put(list(live.PIHERDER_MASTER_KEYS))
    herd.settings.PIHERDER_MASTER_KEYS = keys
    return keys


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_key_that_is_changed_during_a_dump_does_not_lose_what_is_in_it(
    herd: Herder, key_file: KeyFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encrypted: bool
) -> None:
    (old,) = key_file
    sealed = Credential.objects.get(name="key").private_key_sealed
    if encrypted:
        herd.encrypt()

    def slow(folder: Path, tick: Callable[[], None]) -> tuple[Path, Engine]:
        done = dumping.dump(folder, tick)
        change_the_key(key_file)
        return done

    monkeypatch.setattr(making, "dump", slow)
    made = make(Played(), herd.folder, 3)
    (new,) = key_file
    assert old != new
    assert made.manifest.master_key_fingerprints == [fingerprint_of(new), fingerprint_of(old)]
    found = unpack.unpack(made.archive.path, SECRET if encrypted else None, tmp_path, lambda: None)
    inside = found.text("site/master.key").split()
    assert inside == ([new, old] if encrypted else [])
    assert not encrypted or any(opens(key, sealed) for key in inside)


def test_keys_go_into_the_archive_and_into_no_file(herd: Herder) -> None:
    herd.encrypt()
    key = "a key that comes from the environment alone"
    herd.settings.PIHERDER_MASTER_KEYS = [key]
    seen: list[str] = []

    def look(step: str) -> None:
        files = [path for path in herd.data.rglob("*") if path.is_file()]
        seen.extend(step for path in files if key.encode() in path.read_bytes())
        seen.extend("django" for path in files if live.SECRET_KEY.encode() in path.read_bytes())

    make(Played(look), herd.folder, 3)
    assert seen == []
