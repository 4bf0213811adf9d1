"""What rsync prints becomes data."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from hosts.rsync.output import (
    FileLine,
    Message,
    Progress,
    is_progress,
    parse_file,
    parse_message,
    parse_progress,
    parse_stat,
    unescape,
)
from hosts.rsync.process import log_text, safe_text

BLANK = b" " * 32
MD5 = b"d41d8cd98f00b204e9800998ecf8427e"


def test_progress_in_mid_file() -> None:
    assert parse_progress(b"         327680   4%  301.32kB/s    0:01:21  ") == Progress(327680, 4, 301320, 81)


def test_progress_at_the_end_of_a_file() -> None:
    line = b"        5242885  99%   53.76MB/s    1:00:00 (xfr#6, to-chk=3/12) "
    assert parse_progress(line) == Progress(5242885, 99, 53_760_000, 3600, 6, 9, 3)


def test_progress_while_the_host_is_still_listing() -> None:
    progress = parse_progress(b"  5  0%    4.88kB/s    0:00:00 (xfr#5, ir-chk=1004/2012)")
    assert progress is not None
    assert (progress.listing, progress.files_left, progress.files_done) == (True, 1004, 1008)


@pytest.mark.parametrize(
    ("unit", "factor"), [(b"", 1), (b"k", 1000), (b"M", 1_000_000), (b"G", 1_000_000_000), (b"T", 1_000_000_000_000)]
)
def test_speed_units(unit: bytes, factor: int) -> None:
    progress = parse_progress(b"  1  0%    2.00" + unit + b"B/s    0:00:00")
    assert progress is not None
    assert progress.speed == 2 * factor


def test_an_eta_that_rsync_does_not_know() -> None:
    progress = parse_progress(b"  1  0%    0.00kB/s  ??:??:??")
    assert progress is not None
    assert progress.eta is None


@pytest.mark.parametrize("cut", range(1, 62))
def test_a_progress_line_that_has_not_arrived_whole_is_never_misread(cut: int) -> None:
    whole = b"        5242885  99%   53.76MB/s    0:00:10 (xfr#6, to-chk=3/12)"
    progress = parse_progress(whole[:cut])
    assert progress is None or (progress.bytes, progress.percent, progress.speed, progress.eta) == (
        5242885,
        99,
        53_760_000,
        10,
    )


@pytest.mark.parametrize(
    "line", [b"", b"Total file size: 5 bytes", b"file\t>f", b"12 % of it", b"-5 3% 1.00kB/s 0:00:00"]
)
def test_other_lines_are_no_progress(line: bytes) -> None:
    assert parse_progress(line) is None
    assert not is_progress(line)


def test_a_transferred_file() -> None:
    file = parse_file(b"file\t>f+++++++++\t12\t2026/11/30-20:07:33\t" + MD5 + b"\tsub/name")
    assert file == FileLine(b"sub/name", ">f+++++++++", 12, b"2026/11/30-20:07:33", MD5.decode())
    assert file.mtime == datetime(2026, 11, 30, 20, 7, 33, tzinfo=UTC)
    assert file.transferred
    assert file.is_file


def test_a_name_with_a_tab_a_newline_and_a_latin_1_letter() -> None:  # case C13
    file = parse_file(b"file\t>f+++++++++\t1\t2026/11/30-20:07:33\t" + MD5 + b"\tta\tb\\#012caf\\#351 ")
    assert file is not None
    assert file.name == b"ta\tb\ncaf\xe9 "


@pytest.mark.parametrize("checksum", [BLANK, b"0" * 32, b""])
def test_no_checksum(checksum: bytes) -> None:
    file = parse_file(b"file\t>f+++++++++\t1\t2026/11/30-20:07:33\t" + checksum + b"\ta")
    assert file is not None
    assert file.checksum == ""


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (b"*deleting  ", "deleted"),
        (b">f.st......", "transferred is_file"),
        (b"<f+++++++++", "transferred is_file"),
        (b"hf+++++++++", "hard_linked is_file"),
        (b"cd+++++++++", ""),
        (b"cL+++++++++", ""),
        (b".f...p.....", "is_file"),
    ],
)
def test_kinds_of_change(change: bytes, seen: str) -> None:
    file = parse_file(b"file\t" + change + b"\t0\t1970/01/01-00:00:00\t" + BLANK + b"\tff")
    assert file is not None
    kinds = ("deleted", "transferred", "hard_linked", "is_file")
    assert [kind for kind in kinds if getattr(file, kind)] == seen.split()


@pytest.mark.parametrize(
    "line", [b"", b"sent 206 bytes", b"file\tonly", b"file\ta\tb\tc\td\te", b"created directory file\t"]
)
def test_other_lines_are_no_file(line: bytes) -> None:
    assert parse_file(line) is None


@pytest.mark.parametrize(
    ("line", "stat"),
    [
        (b"Number of files: 12 (reg: 9, dir: 1, link: 1, special: 1)", ("files", 12)),
        (b"Number of created files: 3", ("created", 3)),
        (b"Number of deleted files: 0", ("deleted", 0)),
        (b"Number of regular files transferred: 8", ("transferred", 8)),
        (b"Total file size: 5242890 bytes", ("total_bytes", 5242890)),
        (b"Total transferred file size: 5 bytes", ("transferred_bytes", 5)),
        (b"Literal data: 4 bytes", ("literal_bytes", 4)),
        (b"Matched data: 1 bytes", ("matched_bytes", 1)),
        (b"Total bytes sent: 206", ("sent_bytes", 206)),
        (b"Total bytes received: 7", ("received_bytes", 7)),
        (b"File list size: 227", None),
        (b"total size is 5  speedup is 1.00", None),
    ],
)
def test_totals(line: bytes, stat: tuple[str, int] | None) -> None:
    assert parse_stat(line) == stat


def test_a_vanished_file() -> None:
    line = b'file has vanished: "/srv/caf\\#351"'
    assert parse_message(line) == Message(line, b"/srv/caf\xe9", vanished=True)


@pytest.mark.parametrize(
    ("line", "path", "errno"),
    [
        (b'rsync: [sender] change_dir "/srv/dta" failed: No such file or directory (2)', b"/srv/dta", 2),
        (b'rsync: [sender] send_files failed to open "/s/a \\"q\\#351": Permission denied (13)', b'/s/a \\"q\xe9', 13),
        (b'rsync: [receiver] write failed on "/b/x": No space left on device (28)', b"/b/x", 28),
        (b'rsync: [generator] symlink "/b/l" -> "x" failed: Operation not permitted (1)', b'/b/l" -> "x', 1),
        (b"rsync: [Receiver] write error: Broken pipe (32)", None, 32),
        (b"rsync error: some files could not be transferred (code 23) at main.c(1956)", None, None),
        (b"Permission denied (publickey).", None, None),
        (b"", None, None),
    ],
)
def test_messages(line: bytes, path: bytes | None, errno: int | None) -> None:
    assert parse_message(line) == Message(line, path, errno)


def test_shown_names_can_be_read_back() -> None:  # case C13
    source = random.Random(7)
    for _ in range(300):
        name = bytes(source.choice(b"\\#0123478\x00\n\t\xc3\xa9\xff a") for _ in range(source.randrange(20)))
        shown = safe_text(name)
        assert unescape(shown.encode()) == name


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"caf\xe9", "caf\\#351"),
        ("café".encode(), "café"),
        (b"nul\x00", "nul\\#000"),
        (b"\x1b[31mred", "\\#033[31mred"),
        (b"x\\#351", "x\\#134#351"),
        ("\u202eabc".encode(), "\\#342\\#200\\#256abc"),
    ],
)
def test_shown_names_are_printable(raw: bytes, shown: str) -> None:  # case G14: colour codes are never raw
    assert safe_text(raw) == shown


def test_text_that_rsync_escaped_is_not_escaped_twice() -> None:
    assert log_text(b"caf\\#351") == "caf\\#351"
