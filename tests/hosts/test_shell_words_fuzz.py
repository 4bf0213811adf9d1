"""The cutting of a host's answer, against all that a host may say and every way in which it may arrive."""

from __future__ import annotations

import random
import shlex
import subprocess

import pytest

from hosts.shell_words import (
    CUT_MARK,
    LINE_LIMIT,
    REFUSAL_LIMIT,
    Bounded,
    Cutter,
    Lines,
    Stream,
    SudoMode,
    command_body,
    exports,
    frame,
    launch_words,
    stop_script,
)
from hosts.shell_words import Leader as Process

SEEDS = range(30)
NONCE = "piherder-0123456789abcdef01234567"
PARTS = (
    b"piherder-", NONCE.encode(), NONCE.encode()[:20], b":begin:", b":end:0;", b":ran:;", b";", b":", b"\n", b"\r",
    b"x", b"\xff", b"\0", b"Welcome\n",
)  # fmt: skip


def marks(body: bytes, before: bytes = b"", refusal: bytes = b"", after: bytes = b"") -> bytes:
    """One stream as a host sends it."""
    nonce = NONCE.encode()
    begun = before + nonce + b":begin:42 boot-1;" + refusal
    return begun + nonce + b":ran:;" + body + nonce + b":end:7;" + after


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    found, start = [], 0
    while start < len(data):
        size = chance.randint(1, 40)
        found.append(data[start : start + size])
        start += size
    return found


def rubbish(chance: random.Random, count: int = 20) -> bytes:
    """Anything but a whole mark."""
    made = b"".join(chance.choices(PARTS, k=count))
    for tag in (b":begin:", b":ran:", b":end:"):
        made = made.replace(NONCE.encode() + tag, b"")
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_the_body_is_exact_whatever_stands_around_it(seed: int) -> None:  # case C04
    chance = random.Random(seed)
    body = rubbish(chance)
    data = marks(body, rubbish(chance) + b"\n", rubbish(chance) + b"\n", rubbish(chance))
    cutter = Cutter(NONCE)
    found = b"".join(map(cutter.feed, pieces(data, chance))) + cutter.finish()
    assert found == body
    assert cutter.fields["begin"] == "42 boot-1"
    assert cutter.fields["end"] == "7"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_that_breaks_off_keeps_what_came(seed: int) -> None:  # case G07
    chance = random.Random(seed)
    body = rubbish(chance)
    data = marks(body).partition(NONCE.encode() + b":end:")[0]
    cutter = Cutter(NONCE)
    found = b"".join(map(cutter.feed, pieces(data, chance))) + cutter.finish()
    assert found == body
    assert "end" not in cutter.fields


@pytest.mark.parametrize("seed", SEEDS)
def test_lines_are_the_same_however_they_arrive(seed: int) -> None:
    chance = random.Random(seed)
    data = b"".join(chance.choices([b"a", b"b", b"\n", b"\r", b"\r\n", b"\xc3\xbc", b"\xff"], k=200))
    whole, piecewise = Lines(), Lines()
    at_once = whole.feed(data) + whole.finish()
    told = [line for piece in pieces(data, chance) for line in piecewise.feed(piece)] + piecewise.finish()
    assert told == at_once


@pytest.mark.parametrize("seed", SEEDS)
def test_the_kept_ends_are_the_ends(seed: int) -> None:
    chance = random.Random(seed)
    data, limit = bytes(chance.choices(b"abcdefgh", k=chance.randint(0, 300))), chance.randint(2, 120)
    kept = Bounded(limit)
    for piece in pieces(data, chance):
        kept.feed(piece)
    text, half = kept.text(), limit // 2
    assert kept.cut == (len(data) > 2 * half)
    expected = data.decode() if not kept.cut else f"{data[:half].decode()}\n{CUT_MARK}\n{data[-half:].decode()}"
    assert text == expected


def test_another_command_s_mark_is_text() -> None:
    other = NONCE.replace("0", "9").encode() + b":end:0;"
    cutter = Cutter(NONCE)
    assert cutter.feed(marks(other)) == other


def test_a_mark_as_long_as_a_book_is_no_mark() -> None:
    cutter = Cutter(NONCE)
    body = NONCE.encode() + b":end:" + b"9" * 500 + b";"
    assert cutter.feed(marks(body)) + cutter.finish() == body


def test_of_an_endless_refusal_the_end_is_kept() -> None:
    cutter = Cutter(NONCE)
    cutter.feed(NONCE.encode() + b":begin:1 b;" + b"x" * 3 * REFUSAL_LIMIT + b"the reason")
    assert cutter.refusal.endswith("the reason")
    assert len(cutter.refusal) <= REFUSAL_LIMIT


def test_a_stream_without_a_reader_keeps_no_lines() -> None:
    stream = Stream("stdout", NONCE, 100, None)
    stream.feed(marks(b"a\nb\n"))
    stream.finish()
    assert (stream.kept.text(), stream.ended) == ("a\nb\n", True)


def test_a_line_is_told_in_bounds_while_it_grows() -> None:
    lines = Lines()
    for _ in range(40):
        assert lines.feed(b"x" * 10_000) == []
    (told,) = lines.feed(b"\n")
    assert told == "x" * LINE_LIMIT + CUT_MARK


# --- what is sent ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_any_words_come_out_of_any_sh_as_they_went_in(seed: int) -> None:  # case G09
    chance = random.Random(seed)
    words = ["".join(chr(chance.randint(1, 300)) for _ in range(chance.randint(0, 20))) for _ in range(5)]
    body = command_body(["printf", "%s\\0", *words], {"A": words[0]})
    done = subprocess.run(["dash"], input=body.encode(), capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)


def test_the_login_shell_s_line_is_short_and_the_same_for_any_command() -> None:  # case G16
    small, large = frame("true"), frame("x" * 100_000, stdin=b"y" * 100_000)
    assert len(large.line) == len(small.line) < 100
    assert large.stdin.endswith(b"y" * 100_000)


def test_variables_come_before_the_program() -> None:
    assert command_body(["a b", "c"], {"A": "1 2"}) == "export A='1 2'\nexec 'a b' c\n"
    assert exports({}) == ""


@pytest.mark.parametrize("mode", ["root", "none"])
def test_without_sudo_no_sudo_is_named(mode: SudoMode) -> None:
    assert launch_words(mode, 1, NONCE)[0] == "/bin/sh"


def test_a_password_is_sent_for_the_one_mode_that_reads_it() -> None:  # case G16
    silent: tuple[SudoMode, ...] = ("root", "passwordless")
    for mode in silent:
        assert b"S3cr3t" not in frame("true", mode=mode, password="S3cr3t").stdin
    sent = frame("true", mode="password", password="S3cr3t")
    assert sent.stdin.count(b"S3cr3t\n") == 1
    assert "S3cr3t" not in sent.line


@pytest.mark.parametrize("boot", ["unknown", "a'b", "$(touch /tmp/no)", "x; kill -9 -1"])
def test_a_boot_id_that_a_host_made_up_is_only_a_word(boot: str) -> None:
    script = stop_script(Process(999_999_999, boot), 0.1)
    assert shlex.quote(boot) in script
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout == "gone\n"
