"""Lines, exit codes, and the end of programs."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time

import pytest

from hosts.rsync.command import environment
from hosts.rsync.process import MAX_LINE, Child, Line, LineSplitter, Stream, end_group, group_members
from tests.hosts.rsync.conftest import no_check


class Stopped(Exception):
    pass


def split(*chunks: bytes) -> list[Line]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + list(splitter.close())


def stored(*chunks: bytes) -> list[bytes]:
    return [line.raw for line in split(*chunks) if not line.live]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ((b"a\nb\n",), [b"a", b"b"]),
        ((b"a", b"b\n"), [b"ab"]),
        ((b"a\r\nb\r\n",), [b"a", b"b"]),
        ((b"a\r", b"\nb"), [b"a", b"b"]),
        ((b"\n\n",), [b"", b""]),
        ((b"no end",), [b"no end"]),
        ((b"1%\r2%\r3%\n",), [b"3%"]),
        ((b"\r1%\r2%", b"\r3%\nnext\n"), [b"3%", b"next"]),
        ((b"1%\r2%\r",), [b"2%"]),
        ((b"nul\x00\xe9\n",), [b"nul\x00\xe9"]),
        ((), []),
    ],
)
def test_lines(chunks: tuple[bytes, ...], lines: list[bytes]) -> None:
    assert stored(*chunks) == lines


def test_a_hundred_thousand_redraws_are_one_line() -> None:  # case G14
    lines = split(b"\r  1,234,567  12%  1.23MB/s" * 100_000 + b"\n")
    assert lines == [Line(b"  1,234,567  12%  1.23MB/s")]


def test_redraws_are_seen_as_they_come() -> None:
    assert [line.raw for line in split(b"\r1%", b"\r2%", b"\n") if line.live] == [b"1%", b"2%"]


def test_a_line_without_redraws_is_not_live() -> None:
    assert [line.live for line in split(b"half", b" more\n")] == [False]


def test_a_very_long_line_is_cut_and_says_so() -> None:
    lines = split(*[b"x" * 50_000] * 20, b"\nnext\n")
    assert [(len(line.raw), line.cut) for line in lines] == [(MAX_LINE, True), (4, False)]


def test_a_very_long_line_among_others_is_cut_too() -> None:
    lines = split(b"first\n" + b"x" * 100_000 + b"\nnext\n")
    assert [(len(line.raw), line.cut) for line in lines] == [(5, False), (MAX_LINE, True), (4, False)]


def test_a_very_long_redraw_is_cut_and_says_so() -> None:
    lines = split(b"\r" + b"x" * 100_000, b"\r\n", b"next\n")
    assert [(len(line.raw), line.cut) for line in lines if not line.live] == [(MAX_LINE, True), (4, False)]


def plainly(data: bytes) -> list[bytes]:
    """The lines of `data`, found the slow way: of what was drawn over, the last that was not empty."""
    *whole, rest = data.split(b"\n")
    shown = [next((part for part in reversed(line.split(b"\r")) if part), b"") for line in (*whole, rest)]
    return shown if shown[-1] else shown[:-1]


def test_lines_do_not_depend_on_how_they_come_in() -> None:
    source = random.Random(11)
    for _ in range(500):
        data = bytes(source.choice(b"ab\r\n") for _ in range(source.randrange(30)))
        cuts = sorted(source.randrange(len(data) + 1) for _ in range(3))
        chunks = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert stored(*chunks) == plainly(data), chunks


def run(*argv: str, stdin: bytes = b"") -> tuple[int, list[tuple[Stream, bytes]]]:
    heard: list[tuple[Stream, bytes]] = []
    code = Child(argv, env=environment(), stdin=stdin).run(
        lambda stream, line: heard.append((stream, line.raw)), no_check
    )
    return code, heard


def test_both_streams_and_the_exit_code() -> None:
    code, heard = run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (code, sorted(heard)) == (3, [(Stream.STDERR, b"err"), (Stream.STDOUT, b"out")])


def test_all_that_a_busy_program_says_arrives_in_order() -> None:
    _, heard = run("seq", "300000")
    assert heard == [(Stream.STDOUT, b"%d" % number) for number in range(1, 300_001)]


def test_a_busy_program_is_heard_in_batches() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    script = "import os, time\nfor _ in range(3000):\n os.write(1, b'line\\n')\n time.sleep(0.0002)"
    assert len(run(sys.executable, "-c", script)[1]) == 3000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before < 1000


def test_death_by_signal_is_negative() -> None:
    assert run("sh", "-c", "kill -9 $$")[0] == -signal.SIGKILL


def test_stdin_is_closed_unless_given() -> None:
    assert run("cat") == (0, [])


def test_stdin_larger_than_a_pipe() -> None:
    assert run("wc", "-c", stdin=b"x" * 1_000_000) == (0, [(Stream.STDOUT, b"1000000")])


def test_the_environment_is_only_what_was_given() -> None:
    _, heard = run("env")
    assert {line.partition(b"=")[0] for _, line in heard} == {b"PATH", b"LC_ALL", b"TZ"}


def test_a_missing_program() -> None:
    code, heard = run("no-such-program")
    assert code == 127
    assert b"No such file" in heard[0][1]


def stop_at_once() -> None:
    raise Stopped


def pids_of(script: str) -> list[int]:
    """Run a script that prints pids, stop it after the first line, and return the pids."""
    pids: list[int] = []

    def note(stream: Stream, line: Line) -> None:
        pids.extend(map(int, line.raw.split()))

    def check() -> None:
        if pids:
            raise Stopped

    with pytest.raises(Stopped):
        Child(("sh", "-c", script), env=environment()).run(note, check)
    return pids


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_descendants_are_ended_too() -> None:
    pids = pids_of("sleep 600 & a=$!; (sleep 600 & echo $! $$ {}; wait)".format(""))
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_a_program_that_ignores_term_is_killed() -> None:
    start = time.monotonic()
    pids = pids_of("trap '' TERM; echo $$; while :; do sleep 0.1; done")
    assert all(gone(pid) for pid in pids)
    assert 5 <= time.monotonic() - start < 9


def test_a_stopped_program_is_killed() -> None:
    pids = pids_of("echo $$; kill -STOP $$")
    assert all(gone(pid) for pid in pids)


def test_what_on_line_raises_ends_the_program_too() -> None:
    def refuse(stream: Stream, line: Line) -> None:
        raise Stopped(line.raw.decode())

    with pytest.raises(Stopped) as stopped:
        Child(("sh", "-c", "echo $$; exec sleep 600"), env=environment()).run(refuse, no_check)
    assert gone(int(str(stopped.value)))


def test_a_background_program_that_holds_the_pipes_does_not_hold_the_job() -> None:
    start = time.monotonic()
    code, heard = run("sh", "-c", "sleep 600 & echo $!")
    assert code == 0
    assert gone(int(heard[0][1]))
    assert time.monotonic() - start < 9


def test_check_that_raises_before_anything_was_said() -> None:
    with pytest.raises(Stopped):
        Child(("sleep", "600"), env=environment()).run(lambda stream, line: None, stop_at_once)


def test_members_of_the_own_group_are_found() -> None:
    assert os.getpid() in group_members(os.getpgrp())


def test_ending_a_group_that_is_gone_is_nothing() -> None:
    end_group(2**22 + 1)
