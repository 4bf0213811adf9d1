"""A backup keeps what the host has."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hosts.rsync.outcome import Kind
from tests.hosts.rsync.conftest import needs_root

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hosts.rsync.conftest import Site

ODD_NAMES = (b"caf\xe9.txt", b"new\nline", b"-rf", b"ta\tb", b"sp ace", b"\"quoted'", b"st*r[1]?", b"x\\#351", b"\xfc")
ODD_SOURCES = (b"w*ld", b"sp ace", b"caf\xe9", b"new\nline", b"$HOME", b"'q\"", b"back\\*sl", b"[a]", b"b\\s")


def odd_tree(folder: Path) -> None:
    for name in ODD_NAMES:
        with open(bytes(folder) + b"/" + name, "wb") as file:
            file.write(name)


def test_hard_links_are_kept(site: Site) -> None:  # case C12
    (site.data / "a").write_text("a")
    os.link(site.data / "a", site.data / "b")
    site.good(site.backup())
    assert (site.store / "1/a").stat().st_ino == (site.store / "1/b").stat().st_ino


def test_hard_links_can_be_left_out(site: Site) -> None:  # case C12
    (site.data / "a").write_text("a")
    os.link(site.data / "a", site.data / "b")
    site.good(site.backup(hard_links=False))
    assert (site.store / "1/a").stat().st_nlink == 1


def test_holes_are_kept(site: Site) -> None:  # case C10
    with (site.data / "image").open("wb") as file:
        file.truncate(200_000_000)
    site.good(site.backup())
    copy = (site.store / "1/image").stat()
    assert (copy.st_size, copy.st_blocks) == (200_000_000, 0)


def test_acl_and_xattr_are_kept(site: Site) -> None:
    (site.data / "a").write_text("a")
    subprocess.run(["setfacl", "-m", "u:65534:r", site.data / "a"], check=True)
    os.setxattr(site.data / "a", "user.colour", b"blue")
    site.good(site.backup())
    acl = subprocess.run(["getfacl", "-cpn", site.store / "1/a"], check=True, capture_output=True, text=True).stdout
    assert "user:65534:r--" in acl
    assert os.getxattr(site.store / "1/a", "user.colour") == b"blue"


@needs_root
def test_owner_mode_and_time_are_kept(site: Site) -> None:
    (site.data / "a").write_text("a")
    os.chown(site.data / "a", 1234, 4321)
    (site.data / "a").chmod(0o604)
    os.utime(site.data / "a", (1_000_000_000, 1_000_000_000))
    site.good(site.backup())
    copy = (site.store / "1/a").stat()
    assert (copy.st_uid, copy.st_gid, copy.st_mode & 0o7777, copy.st_mtime) == (1234, 4321, 0o604, 1_000_000_000)


def test_odd_names_are_kept_and_reported_by_bytes(site: Site) -> None:  # case C13
    odd_tree(site.data)
    site.good(site.backup())
    assert set(os.listdir(bytes(site.store / "1"))) == set(ODD_NAMES)
    assert {file.name for file in site.files if file.is_file} == set(ODD_NAMES)


def test_checksums_of_transferred_files_are_md5(site: Site) -> None:
    odd_tree(site.data)
    site.good(site.backup())
    wanted = {name: hashlib.md5(name, usedforsecurity=False).hexdigest() for name in ODD_NAMES}
    assert {file.name: file.checksum for file in site.files if file.transferred} == wanted


def test_a_hard_linked_name_has_no_checksum_of_its_own(site: Site) -> None:
    (site.data / "a").write_text("a")
    os.link(site.data / "a", site.data / "b")
    site.good(site.backup())
    assert [bool(file.checksum) for file in site.files if file.hard_linked] == [False]
    assert [bool(file.checksum) for file in site.files if file.transferred] == [True]


@pytest.mark.parametrize("name", ODD_SOURCES)
def test_the_source_may_have_any_name(site: Site, name: bytes) -> None:
    source = bytes(site.data) + b"/" + name
    for folder in (source, bytes(site.data) + b"/world", bytes(site.data) + b"/a"):
        os.mkdir(folder)
    open(source + b"/mine", "wb").close()
    open(bytes(site.data) + b"/world/foreign", "wb").close()
    site.good(replace(site.backup(), source=source))
    assert os.listdir(site.store / "1") == ["mine"]


def test_second_generation_shares_what_is_unchanged(site: Site) -> None:
    (site.data / "same").write_text("same")
    (site.data / "changes").write_text("1")
    site.good(site.backup("1"))
    (site.data / "changes").write_text("22")
    site.files.clear()
    done = site.good(site.backup("2", link_dest="1"))
    assert (site.store / "1/same").stat().st_ino == (site.store / "2/same").stat().st_ino
    assert (site.store / "1/changes").read_text() == "1"
    assert [file.name for file in site.files if file.transferred] == [b"changes"]
    assert done.stats.transferred == 1


def test_an_edit_of_the_same_length_within_the_same_second_is_seen(site: Site) -> None:
    (site.data / "a").write_text("old")
    os.utime(site.data / "a", ns=(10**18, 10**18))
    site.good(site.backup("1"))
    (site.data / "a").write_text("new")
    os.utime(site.data / "a", ns=(10**18, 10**18 + 1000))
    site.good(site.backup("2", link_dest="1"))
    assert [(site.store / name / "a").read_text() for name in ("1", "2")] == ["old", "new"]


def test_what_an_interrupted_run_left_is_cleaned(site: Site) -> None:
    (site.data / "a").write_text("a")
    (site.store / "1").mkdir()
    (site.store / "1/.a.x9Yz1Q").write_text("half")
    site.good(site.backup())
    assert os.listdir(site.store / "1") == ["a"]
    assert [file.name for file in site.files if file.deleted] == [b".a.x9Yz1Q"]


def test_excludes(site: Site) -> None:
    (site.data / "keep").write_text("")
    (site.data / "drop.tmp").write_text("")
    site.good(replace(site.backup(), excludes=("*.tmp",)))
    assert os.listdir(site.store / "1") == ["keep"]


def test_stats_and_last_progress(site: Site) -> None:
    for number in range(5):
        (site.data / f"{number}").write_bytes(b"x" * 1000)
    done = site.good(site.backup())
    assert (done.stats.files, done.stats.transferred, done.stats.total_bytes) == (6, 5, 5000)
    assert (site.progress[-1].percent, site.progress[-1].files_left, site.progress[-1].bytes) == (100, 0, 5000)


def test_dry_run_counts_and_writes_nothing(site: Site) -> None:
    (site.data / "a").write_bytes(b"x" * 1000)
    done = site.good(site.backup(dry_run=True))
    assert done.stats.transferred_bytes == 1000
    assert os.listdir(site.store) == [".lock"]
    assert {file.checksum for file in site.files} == {""}


def test_a_file_that_vanishes_is_a_warning(site: Site) -> None:  # case C01
    (site.data / "a-large").write_bytes(os.urandom(1_500_000))
    (site.data / "z-gone").write_text("")

    def remove() -> None:
        if list((site.store / "1").glob(".a-large.*")):
            (site.data / "z-gone").unlink(missing_ok=True)

    done = site.run(site.backup(bandwidth_kib=500), remove)
    assert (done.exit_code, done.vanished) == (24, 1)
    assert [message.path for message in done.messages if message.vanished] == [bytes(site.data / "z-gone")]


def test_missing_source(site: Site) -> None:  # case C02
    verdict = site.verdict(replace(site.backup(), source=bytes(site.data / "dta")))
    assert (verdict.kind, verdict.paths) == (Kind.MISSING_SOURCE, (bytes(site.data / "dta"),))
    assert not verdict.good


def test_a_source_that_is_a_file(site: Site) -> None:
    (site.data / "file").write_text("")
    verdict = site.verdict(replace(site.backup(), source=bytes(site.data / "file")))
    assert verdict.kind is Kind.MISSING_SOURCE
    assert "is not a folder on node-a" in verdict.sentence
