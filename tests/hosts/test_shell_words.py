"""Markers, lines, bounds and frames, with strings and a local sh; no host needed."""

import shlex
import subprocess

import pytest

from hosts.shell_words import (
    CUT_MARK,
    LINE_LIMIT,
    Bounded,
    Cutter,
    Leader,
    Lines,
    Stream,
    command_body,
    exports,
    frame,
    launch_words,
    plain_text,
    refusal_sentence,
    stop_script,
)

NOISY = b"motd\nN:begin:12 boot;sudo: warns\nN:ran:;body\nN:endless N:end:3;bye\n"


def split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_body_is_cut_out_however_it_arrives(size: int) -> None:
    cutter = Cutter("N")
    body = b"".join(cutter.feed(part) for part in split(NOISY, size))
    assert body == b"body\nN:endless "
    assert cutter.fields == {"begin": "12 boot", "ran": "", "end": "3"}
    assert cutter.refusal == "sudo: warns"


def test_nothing_is_held_back_without_reason() -> None:
    cutter = Cutter("nonce")
    cutter.feed(b"nonce:ran:;")
    assert cutter.feed(b"one no") == b"one "
    assert cutter.feed(b"thing") == b"nothing"


def test_held_back_part_comes_at_the_end() -> None:
    cutter = Cutter("nonce")
    assert cutter.feed(b"nonce:ran:;text non") + cutter.finish() == b"text non"


def test_quoted_nonce_is_text() -> None:
    cutter = Cutter("nonce")
    quoted = b"sh -c x nonce " + b"y" * 200
    assert cutter.feed(b"nonce:ran:;" + quoted) == quoted


def test_reason_of_a_refusal_is_bounded() -> None:
    cutter = Cutter("N-1")
    cutter.feed(b"N-1:begin:;" + b"x" * 100_000 + b"last words\n")
    assert cutter.refusal.endswith("last words")
    assert len(cutter.refusal) < 10_000


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"\r 1%\r 2%\r 3%\ndone", [" 3%", "done"]),
        (b" 1%\r 2%\r", [" 2%"]),
        (b"\n\n", ["", ""]),
        (b"Gr\xfc\xdfe\x00\n", ["Gr\ufffd\ufffde"]),
        (b"", []),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines(data: bytes, expected: list[str], size: int) -> None:  # cases G08, G14
    lines = Lines()
    told = [line for part in split(data, size) for line in lines.feed(part)]
    assert told + lines.finish() == expected


def test_hundred_thousand_updates_are_one_line() -> None:  # case G14
    lines = Lines()
    data = b"".join(b"\r  1,234,567  %2d%%  1.23MB/s" % (n % 100) for n in range(100_000)) + b"\n"
    told = [line for part in split(data, 32768) for line in lines.feed(part)]
    assert told == ["  1,234,567  99%  1.23MB/s"]


def test_megabyte_on_one_line_is_cut() -> None:
    lines = Lines()
    told = [line for part in split(b"x" * 1_000_000 + b"\nnext\n", 32768) for line in lines.feed(part)]
    assert told == ["x" * LINE_LIMIT + CUT_MARK, "next"]


def test_character_split_between_two_packets() -> None:
    stream = Stream("stdout", "N", 100, None)
    for part in (b"N:ran:;", "ü".encode()[:1], "ü".encode()[1:], b"N:end:0;"):
        stream.feed(part)
    assert (stream.kept.text(), stream.ended) == ("ü", True)


@pytest.mark.parametrize(("sent", "kept"), [(10, "0123456789"), (12, f"01234\n{CUT_MARK}\n78901")])
def test_bounds(sent: int, kept: str) -> None:
    bounded = Bounded(10)
    for n in range(sent):
        bounded.feed(str(n % 10).encode())
    assert (bounded.text(), bounded.cut) == (kept, sent > 10)


def test_plain_text_is_fit_for_a_database() -> None:
    assert plain_text(b"a\x00b\xff") == "ab\ufffd"


@pytest.mark.parametrize("name", ["", "A-B", "1A", "A B", "A\n", "A=B"])
def test_name_that_is_no_variable(name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        exports({name: "x"})


def test_empty_command_and_nul_are_refused() -> None:
    with pytest.raises(ValueError, match="name of a program"):
        command_body([], {})
    with pytest.raises(ValueError, match="NUL"):
        frame("echo a\0b")


def test_login_shell_sees_nothing_it_could_misread() -> None:  # case G09
    line = frame(command_body(["echo", "it's", "\\", "!", "\n"], {"A": "`$x`"})).line
    assert line.count("'") == 2
    assert not set(line) & set("\\!\n`*?;|<~#")


def test_frame_runs_in_any_sh() -> None:
    framed = frame("cat; exit 5\n", stdin=b"given")
    done = subprocess.run(framed.line, shell=True, input=framed.stdin, capture_output=True, check=False)
    cutter = Cutter(framed.nonce)
    assert cutter.feed(done.stdout) == b"given"
    assert cutter.fields["end"] == "5"


def test_no_two_commands_share_a_nonce() -> None:
    assert frame("true").nonce != frame("true").nonce


def test_sudo_never_asks_on_a_terminal() -> None:
    assert launch_words("passwordless", 1, "N")[:2] == ["sudo", "-n"]
    assert launch_words("password", 1, "N")[:5] == ["sudo", "-k", "-S", "-p", ""]
    assert launch_words("root", 1, "N")[0] == "/bin/sh"


def test_password_travels_on_stdin_only() -> None:  # case G16
    framed = frame("true", mode="password", password="S3cr3t$x")
    assert framed.stdin.count(b"S3cr3t$x\n") == 1
    assert "S3cr3t" not in framed.line + shlex.join(launch_words("password", 1, framed.nonce))


def test_stop_after_a_reboot_touches_nothing() -> None:
    sleeper = subprocess.Popen(["sleep", "30"])
    script = stop_script(Leader(sleeper.pid, "boot-of-yesterday"), 1)
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "gone\n"
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


@pytest.mark.parametrize(
    ("reason", "stored", "expected"),
    [
        ("sudo: a password is required", False, "wants a password from ann (sudo: a password is required)"),
        ("Sorry, try again.\nsudo: 1 incorrect password attempt\n", True, "(sudo: 1 incorrect password attempt)"),
        ("sudo: sorry, you must have a tty to run sudo", False, "“Defaults:ann !requiretty” and “ann ALL="),
        ("sh: 1: exec: sudo: not found", False, "sudo is not installed on pi1"),
        ("", False, "(no reason given)"),
    ],
)
def test_refusal_in_words(reason: str, stored: bool, expected: str) -> None:  # case C05
    assert expected in refusal_sentence("pi1", "ann", reason, password_stored=stored)
