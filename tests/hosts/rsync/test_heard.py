"""What is counted of all that a copy says, however much that is."""

from __future__ import annotations

import pytest

from hosts.rsync.output import Message, parse_message
from hosts.rsync.process import Line, Stream
from hosts.rsync.run import KEPT_MESSAGES, Finished, _ignore, _Listener

DENIED = b'rsync: [sender] send_files failed to open "/s/x": Permission denied (13)'
FAULT = b"ERROR: sub/x failed verification -- update retained."
NOISE = b"sudo: unable to resolve host pi: Name or service not known"
END = b"rsync error: some files/attrs were not transferred (code 23) at main.c(1)"


def heard(*lines: bytes | None) -> Finished:
    """What is left of these lines of stderr; None is a line of rsync's on stdout."""
    listener = _Listener(_ignore, _ignore, _ignore)
    for line in lines:
        listener.hear(Stream.STDOUT if line is None else Stream.STDERR, Line(line or b"file\t.f\t0\t\t\tx"))
    return listener.finished(23)


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        ((DENIED, END), 0),
        ((DENIED, FAULT, END), 1),
        ((FAULT, DENIED, END), 1),
        ((NOISE, b"Welcome to pi", DENIED, END), 0),
        ((NOISE, None, DENIED, END), 0),
        ((None, NOISE, DENIED, END), 1),
        ((DENIED, NOISE, END), 1),
        ((b"rsync: [receiver] something", DENIED), 1),
        ((DENIED, END, b"rsync: [Receiver] write error: Broken pipe (32)"), 0),
        ((b'directory has vanished: "/s/y"', DENIED), 0),
    ],
)
def test_what_a_login_says_before_rsync_runs_is_no_fault(lines: tuple[bytes | None, ...], others: int) -> None:
    assert heard(*lines).others == others


def test_a_fault_amid_thousands_of_unreadable_names_is_counted() -> None:  # case C02
    done = heard(*[DENIED] * KEPT_MESSAGES, FAULT, *[DENIED] * 500, END)
    assert done.others == 1
    assert Message(FAULT) not in done.messages


@pytest.mark.parametrize("line", [b"", b"rsync: ", b"rsync: [sender] ", b'"', b"\xff\0", b"rsync: [sender] (13)"])
def test_odd_lines_are_unexplained_and_harmless(line: bytes) -> None:
    found = parse_message(line)
    assert (found.unexplained, found.denied) == (True, False)
