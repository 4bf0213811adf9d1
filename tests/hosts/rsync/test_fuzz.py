"""Whatever a host, a login script or a file name says: reading it never raises, never hangs, and loses nothing."""

from __future__ import annotations

import random
import time

import pytest

from hosts.rsync.outcome import Case, Kind, judge
from hosts.rsync.output import STAT_FIELDS, parse_file, parse_message, parse_progress, parse_stat, unescape
from hosts.rsync.process import MAX_LINE, LineSplitter, log_text, safe_text

SEEDS = range(25)
WORDS = (
    b"rsync: ", b'"', b'": ', b"failed: ", b"No space left on device (28)", b" (13)", b"file has vanished: ", b"\t",
    b"file\t>f+++++++++\t", b"12\t", b"2026/11/30-02:15:00\t", b"0/0/0-0:0:0\t", b"99%", b"1.00kB/s", b"0:00:01",
    b"(xfr#1, to-chk=0/1)", b"Number of files: ", b"\xff", b"\x00", b"\\#303", b"\\#9", b"\r", b"\x1b[31m", b"A", b" ",
)  # fmt: skip


def rubbish(seed: int, count: int = 400) -> list[bytes]:
    """Lines made of what the parsers look for, put together at random."""
    chance = random.Random(seed)
    lines = [b"".join(chance.choices(WORDS, k=chance.randint(0, 12))) for _ in range(count)]
    return lines + [chance.randbytes(chance.randint(0, 80)) for _ in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_line_makes_a_parser_raise(seed: int) -> None:
    for line in rubbish(seed):
        for parse in (parse_file, parse_message, parse_progress, parse_stat):
            parse(line)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_verdict_has_a_sentence_that_can_be_shown(seed: int) -> None:
    chance = random.Random(seed)
    messages = [parse_message(line) for line in rubbish(seed, 20)]
    for code in (*range(-1, 36), 75, 126, 127, 255):
        found = judge(Case(code, chance.sample(messages, 5), host="node-a", noise="{x}\x1b[0m"))
        assert found.sentence
        assert found.good == (code in (0, 24))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_shown_is_printable(seed: int) -> None:  # case G08
    for line in rubbish(seed):
        shown = log_text(line)
        assert shown.replace("\t", " ").isprintable()
        shown.encode("utf-8")  # no surrogate is left, which no database would take


@pytest.mark.parametrize("seed", SEEDS)
def test_any_name_can_be_shown_and_read_back(seed: int) -> None:  # case C13
    for name in rubbish(seed):
        assert unescape(safe_text(name).encode()) == name


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_are_the_same_however_the_bytes_arrive(seed: int) -> None:
    chance, data = random.Random(seed), b"\n".join(rubbish(seed, 60))
    at_once = LineSplitter()
    whole = [line for line in (*at_once.feed(data), *at_once.close()) if not line.live]
    piecewise, pieces, start = LineSplitter(), [], 0
    while start < len(data):
        size = chance.randint(1, 50)
        pieces += [line for line in piecewise.feed(data[start : start + size]) if not line.live]
        start += size
    assert pieces + list(piecewise.close()) == whole


def test_a_line_without_end_is_bounded() -> None:
    splitter = LineSplitter()
    for _ in range(10):
        assert list(splitter.feed(b"x" * MAX_LINE)) == []
    (line,) = splitter.feed(b"\n")
    assert (len(line.raw), line.cut) == (MAX_LINE, True)
    (after,) = splitter.feed(b"next\n")
    assert (after.raw, after.cut) == (b"next", False)


@pytest.mark.parametrize("piece", [b'"', b'": ', b'": A', b": A", b"\\#042", b" (2", b'": A (1'])
def test_a_name_made_to_keep_the_parser_busy_does_not(piece: bytes) -> None:
    line = (b'rsync: [sender] skipping "' + piece * MAX_LINE)[:MAX_LINE]
    began = time.process_time()
    for parse in (parse_message, parse_file, parse_progress, parse_stat):
        parse(line)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("line", "path", "errno"),
    [
        (b'rsync: [sender] send_files failed to open "/a": Permission denied (13)', b"/a", 13),
        (b'rsync: [sender] opendir "/a "b" c" failed: Permission denied (13)', b'/a "b" c', 13),
        (b'rsync: [sender] open "/a": Not (1): Permission denied (13)', b"/a", 13),
        (b'rsync: rename "/a" -> "/b": Is a directory (21)', b'/a" -> "/b', 21),
        (b'rsync: [receiver] write failed on "/b/caf\\#351": No space left on device (28)', b"/b/caf\xe9", 28),
        (b"rsync: [Receiver] write error: Broken pipe (32)", None, 32),
        (b"rsync: No space left on device (28)", None, 28),
        (b'rsync: [sender] "": No such file or directory (2)', b"", 2),
        (b"rsync: what is this (2)", None, None),
        (b"rsync: Too long a number (12345678901)", None, None),
        (b'send_files failed to open "/a": Permission denied (13)', None, None),  # not rsync's own word
    ],
)
def test_path_and_reason_of_a_message(line: bytes, path: bytes | None, errno: int | None) -> None:
    found = parse_message(line)
    assert (found.path, found.errno, found.text) == (path, errno, line)


@pytest.mark.parametrize("moment", [b"12000/01/01-00:00:00", b"0/0/0-0:0:0", b"", b"\xff", b"2026/13/01-00:00:00"])
def test_a_time_that_python_cannot_hold_costs_the_time_and_not_the_checksum(moment: bytes) -> None:
    found = parse_file(b"file\t>f+++++++++\t5\t" + moment + b"\t0123abcd\tname")
    assert found is not None
    assert (found.mtime, found.checksum, found.name) == (None, "0123abcd", b"name")


def test_every_total_has_a_place() -> None:
    for label, name in STAT_FIELDS.items():
        assert parse_stat(label + b": 17 (reg: 3)") == (name, 17)


@pytest.mark.parametrize("name", ["host key verification failed", "sudo: a password is required", "piherder: busy"])
def test_a_host_whose_files_are_named_like_errors_is_judged_by_its_errors(name: str) -> None:
    line = f'rsync: [sender] send_files failed to open "/srv/{name}": Permission denied (13)'
    assert judge(Case(23, [parse_message(line.encode())], host="node-a")).kind is Kind.UNREADABLE
