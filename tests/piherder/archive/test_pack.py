"""Archives as files: tampered, cut short, or made by someone who means harm."""

from __future__ import annotations

import io
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from piherder.archive import manifest, pack
from piherder.archive.errors import ArchiveError
from piherder.archive.unpack import unpack
from tests.piherder.archive.test_manifest import sample

if TYPE_CHECKING:
    from pathlib import Path

    from piherder.archive.manifest import Manifest


def no_tick() -> None:
    """Nobody cancels."""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A good archive of two members."""
    files = {"database.sqlite3.gz": tmp_path / "db", "site/install.id": tmp_path / "id"}
    files["database.sqlite3.gz"].write_bytes(b"database " * 1000)
    files["site/install.id"].write_bytes(b"install\n")
    members = [pack.member_of(path, name, no_tick) for name, path in files.items()]
    with (tmp_path / "made.tar").open("wb") as out:
        pack.write(out, sample(members=members), files, no_tick)
    return tmp_path / "made.tar"


def read(path: Path, goal: Path) -> Manifest:
    """Unpack into a new folder."""
    goal.mkdir(exist_ok=True)
    return unpack(path, None, goal, no_tick).manifest


def test_what_was_packed_comes_out_again(made: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    found = unpack(made, None, tmp_path / "out", no_tick)
    assert found.files["database.sqlite3.gz"].read_bytes() == b"database " * 1000
    assert (found.text("site/install.id"), found.text("site/master.key")) == ("install", "")


def test_tar_itself_can_list_it(made: Path) -> None:
    listed = subprocess.run(["tar", "-tf", str(made)], capture_output=True, text=True, check=True).stdout.split()
    assert listed == ["manifest.json", "database.sqlite3.gz", "site/install.id"]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.6])
def test_a_truncated_archive_is_refused(made: Path, tmp_path: Path, share: float) -> None:
    data = made.read_bytes()
    made.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ArchiveError, match=r"damaged or incomplete|no archive of PiHerder"):
        read(made, tmp_path / "out")


def test_a_tampered_member_is_refused(made: Path, tmp_path: Path) -> None:
    made.write_bytes(made.read_bytes().replace(b"database database", b"database databese", 1))
    with pytest.raises(ArchiveError, match=r"database.sqlite3.gz was changed since the archive was made"):
        read(made, tmp_path / "out")


def test_an_archive_without_all_its_members_is_refused(made: Path, tmp_path: Path) -> None:
    forged = forge(tmp_path, made, keep={"manifest.json", "database.sqlite3.gz"})
    with pytest.raises(ArchiveError, match=r"lacks site/install.id"):
        read(forged, tmp_path / "out")


def forge(tmp_path: Path, made: Path, *extra: tarfile.TarInfo, keep: set[str] | None = None) -> Path:
    """The archive with only some members, and further ones at its end."""
    path = tmp_path / "forged.tar"
    with tarfile.open(made) as old, tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as new:
        for info in old.getmembers():
            if keep is None or info.name in keep:
                new.addfile(info, old.extractfile(info))
        for info in extra:
            new.addfile(info, io.BytesIO(b"x" * info.size) if info.isreg() else None)
    return path


def odd(name: str, kind: bytes = tarfile.REGTYPE, size: int = 1, link: str = "") -> tarfile.TarInfo:
    """A member that does not belong."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size if kind == tarfile.REGTYPE else 0, link
    return info


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "site/../../evil", "site/master.key", "site/install.id"])
def test_a_member_that_the_manifest_lacks_is_refused_whatever_its_name(made: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="holds a file that its manifest lacks"):
        read(forge(tmp_path, made, odd(name)), tmp_path / "out")
    assert not {path.name for path in tmp_path.rglob("*")} & {"evil", "master.key"}


@pytest.mark.parametrize(
    "info",
    [
        odd("site/install.id", tarfile.SYMTYPE, link="/etc/shadow"), odd("x", tarfile.LNKTYPE, link="manifest.json"),
        odd("x", tarfile.CHRTYPE), odd("x", tarfile.BLKTYPE), odd("x", tarfile.FIFOTYPE), odd("x", tarfile.DIRTYPE),
        odd("x", tarfile.GNUTYPE_SPARSE), odd("long/" * 60),
    ],
    ids=lambda info: str(info.type),
)  # fmt: skip
def test_links_devices_folders_and_long_names_are_refused(made: Path, tmp_path: Path, info: tarfile.TarInfo) -> None:
    with pytest.raises(ArchiveError, match="something that is no plain file"):
        read(forge(tmp_path, made, info), tmp_path / "out")


def test_a_link_in_the_place_of_a_listed_member_is_refused(made: Path, tmp_path: Path) -> None:
    link = odd("site/install.id", tarfile.SYMTYPE, link="/etc/hostname")
    forged = forge(tmp_path, made, link, keep={"manifest.json", "database.sqlite3.gz"})
    with pytest.raises(ArchiveError, match="no plain file"):
        read(forged, tmp_path / "out")


def raw(tmp_path: Path, found: Manifest, size: int | None = None) -> Path:
    """An archive that is only a manifest, with a header that says `size`."""
    info = odd(manifest.NAME, size=len(found.to_bytes()) if size is None else size)
    (tmp_path / "raw.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + found.to_bytes())
    return tmp_path / "raw.tar"


def test_a_manifest_of_absurd_size_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"said to have 8,000,000,000 bytes"):
        read(raw(tmp_path, sample(), 8_000_000_000), tmp_path / "out")


def test_members_that_cannot_fit_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    huge = sample(members=[manifest.Member("database.sqlite3.gz", 1 << 58, "0" * 64)])
    text = huge.to_bytes()
    path = raw(tmp_path, huge)
    path.write_bytes(path.read_bytes() + b"\0" * (-len(text) % 512) + b"\0" * 1024)
    with pytest.raises(ArchiveError, match=r"no room left .* are needed"):
        read(path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_of_someone_else_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.addfile(odd("holiday.jpg"), io.BytesIO(b"x"))
    with pytest.raises(ArchiveError, match="its first file is no manifest"):
        read(tmp_path / "other.tar", tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"text", b"PK\3\4"])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ArchiveError, match="is no archive of PiHerder"):
        read(tmp_path / "file", tmp_path / "out")
    with pytest.raises(ArchiveError, match=r"nowhere cannot be used \(No such file"):
        read(tmp_path / "nowhere", tmp_path / "out")


def test_a_stop_in_mid_pack_is_passed_on(made: Path, tmp_path: Path) -> None:
    def stop() -> None:
        raise InterruptedError

    with made.open("rb") as source:
        found = pack.read_manifest(source)
        with pytest.raises(InterruptedError):
            pack.read_members(source, found, tmp_path, stop)
