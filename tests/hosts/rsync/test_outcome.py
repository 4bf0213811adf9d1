"""Exit codes and last words become one sentence."""

from __future__ import annotations

import pytest

from hosts.rsync.command import BUSY_MARK
from hosts.rsync.outcome import Case, Kind, Verdict, judge
from hosts.rsync.output import parse_message

CLOSED = "rsync: connection unexpectedly closed (0 bytes received so far) [Receiver]"
CODE_12 = "rsync error: error in rsync protocol data stream (code 12) at io.c(232) [Receiver=3.2.7]"


def verdict(code: int, *lines: str, noise: str = "") -> Verdict:
    messages = tuple(parse_message(line.encode()) for line in lines)
    return judge(Case(code, messages, host="node-a", user="pi", destination="/backups", noise=noise))


@pytest.mark.parametrize(
    ("code", "lines", "kind"),
    [
        (0, (), Kind.OK),
        (12, ("bash: line 1: rsync: command not found", CLOSED, CODE_12), Kind.NO_RSYNC),  # case C03
        (127, ("bash: line 1: rsync: command not found", "remote command not found (code 127)"), Kind.NO_RSYNC),
        (127, ("fish: Unknown command: rsync",), Kind.NO_RSYNC),
        (127, ("sh: 1: rsync: not found",), Kind.NO_RSYNC),
        (12, ("sudo: rsync: command not found", CLOSED), Kind.NO_RSYNC),
        (127, (), Kind.NO_RSYNC),
        (2, ("protocol version mismatch -- is your shell clean?",), Kind.NOISY),  # case C04
        (12, ("sudo: sorry, you must have a tty to run sudo", CLOSED, CODE_12), Kind.SUDO),  # case C05
        (12, ("sudo: a terminal is required to read the password", CLOSED), Kind.SUDO),
        (1, ("sudo: a password is required",), Kind.SUDO),
        (12, ("Sorry, user pi is not allowed to execute '/usr/bin/rsync' as root on node-a.", CODE_12), Kind.SUDO),
        (12, ("pi is not in the sudoers file.",), Kind.SUDO),
        (127, ("sh: 1: sudo: not found",), Kind.SUDO),
        (11, ('rsync: [receiver] write failed on "/b/x": No space left on device (28)',), Kind.FULL),  # case C09
        (10, ('rsync: [receiver] write failed on "/b/x": No space left on device (28)', CLOSED), Kind.FULL),
        (23, ('rsync: [receiver] mkstemp "/b/.x.q" failed: Disk quota exceeded (122)',), Kind.FULL),
        (255, ("ssh: connect to host 127.0.0.1 port 22: Connection refused",), Kind.UNREACHABLE),
        (255, ("ssh: Could not resolve hostname node-a: Name or service not known",), Kind.UNREACHABLE),
        (255, ("Connection timed out during banner exchange",), Kind.UNREACHABLE),
        (255, ("kex_exchange_identification: Connection closed by remote host",), Kind.UNREACHABLE),
        (255, ("something new",), Kind.UNREACHABLE),
        (255, ("Host key verification failed.", CLOSED), Kind.HOST_KEY),
        (255, ("pi@127.0.0.1: Permission denied (publickey).", CLOSED), Kind.LOGIN_REFUSED),
        (75, (), Kind.BUSY_HERE),
        (75, (BUSY_MARK,), Kind.BUSY_THERE),
        (12, (BUSY_MARK, CLOSED, CODE_12), Kind.BUSY_THERE),
        (20, ("rsync error: received SIGINT, SIGTERM, or SIGHUP (code 20)",), Kind.STOPPED),
        (-9, (), Kind.STOPPED),
        (30, ("rsync error: timeout in data send/receive (code 30)",), Kind.LOST),  # case C07
        (255, ("Timeout, server 127.0.0.1 not responding.", CLOSED), Kind.LOST),
        (255, ("client_loop: send disconnect: Broken pipe",), Kind.LOST),
        (12, (CLOSED, CODE_12), Kind.LOST),
        (1, ("rsync: on remote machine: --mkpath: unknown option",), Kind.OLD_RSYNC),
        (4, ("rsync: --checksum-choice=md5: unknown option",), Kind.OLD_RSYNC),
        (3, ("rsync: [Receiver] mkdir failed",), Kind.FAILED),
    ],
)
def test_kinds(code: int, lines: tuple[str, ...], kind: Kind) -> None:
    assert verdict(code, *lines).kind is kind


@pytest.mark.parametrize("kind", Kind)
def test_only_whole_copies_are_good(kind: Kind) -> None:
    assert Verdict(kind, "").good is (kind in (Kind.OK, Kind.VANISHED))


def test_vanished_files_are_counted_and_named() -> None:  # case C01
    found = verdict(24, 'file has vanished: "/a"', 'file has vanished: "/b"', "rsync warning: some files vanished")
    assert (found.kind, found.good, found.paths) == (Kind.VANISHED, True, (b"/a", b"/b"))
    assert found.sentence == "2 files on node-a vanished during the copy; the rest is complete."


def test_a_missing_source_is_named() -> None:  # case C02
    found = verdict(23, 'rsync: [sender] change_dir "/srv/dta" failed: No such file or directory (2)')
    assert found.kind is Kind.MISSING_SOURCE
    assert found.sentence == "/srv/dta is not a folder on node-a; correct the source or mount its disk."


def test_a_missing_source_is_seen_through_the_broken_pipe_that_follows() -> None:
    line = 'rsync: [sender] change_dir "/srv/dta" failed: No such file or directory (2)'
    assert verdict(23, line, "rsync: [Receiver] write error: Broken pipe (32)").kind is Kind.MISSING_SOURCE


DENIED = 'rsync: [sender] send_files failed to open "/s/{}": Permission denied (13)'


def test_unreadable_names_are_listed() -> None:
    found = verdict(23, *(DENIED.format(number) for number in range(5)))
    assert (found.kind, len(found.paths)) == (Kind.UNREADABLE, 5)
    assert found.sentence == "pi may not read 5 of the names on node-a: /s/0, /s/1, /s/2 and 2 more."


def test_an_error_beside_unreadable_names_is_more_than_unreadable() -> None:  # case C02
    other = 'rsync: [sender] read errors mapping "/s/x": Input/output error (5)'
    found = verdict(23, DENIED.format(1), other)
    assert (found.kind, found.paths) == (Kind.PARTIAL, (b"/s/1", b"/s/x"))


@pytest.mark.parametrize(
    "said",
    [
        'rsync: [receiver] mkstemp "/b/.x.q" failed: Permission denied (13)',
        'rsync: [generator] chown "/b/x" failed: Operation not permitted (1)',
        "rsync: [sender] get_acl: sys_acl_get_file(x, ACL_TYPE_ACCESS): Input/output error (5)",
        "ERROR: sub/x failed verification -- update retained.",
        "rsync: [sender] a word that is not known yet",
    ],
)
def test_whatever_is_said_beside_unreadable_names_makes_it_partial(said: str) -> None:  # case C02
    assert verdict(23, DENIED.format(1), said).kind is Kind.PARTIAL


def test_a_vanished_name_beside_unreadable_ones_is_no_fault() -> None:  # case C01
    said = ('file has vanished: "/s/a"', 'directory has vanished: "/s/b"', "rsync error: some files … (code 23)")
    assert verdict(23, *said, DENIED.format(1)).kind is Kind.UNREADABLE


@pytest.mark.parametrize(("others", "kind"), [(None, Kind.UNREADABLE), (0, Kind.UNREADABLE), (1, Kind.PARTIAL)])
def test_what_was_counted_but_not_kept_counts(others: int | None, kind: Kind) -> None:
    messages = (parse_message(DENIED.format(1).encode()),)
    assert judge(Case(23, messages, host="node-a", others=others)).kind is kind


@pytest.mark.parametrize("code", [3, 11, 23])
def test_a_restore_that_may_not_write_says_so(code: int) -> None:
    said = 'rsync: [Receiver] mkdir "/srv/new" failed: Permission denied (13)'
    found = judge(Case(code, (parse_message(said.encode()),), host="node-a", user="pi", push=True))
    assert (found.kind, found.paths) == (Kind.UNWRITABLE, (b"/srv/new",))
    words = "pi may not write 1 of the names on node-a: /srv/new; allow sudo for rsync there, or choose another --to."
    assert found.sentence == words


def test_a_restore_that_may_not_read_the_generation_does_not_blame_the_host() -> None:
    found = judge(Case(23, (parse_message(DENIED.format(1).encode()),), host="node-a", push=True))
    assert (found.kind, "may not" in found.sentence) == (Kind.PARTIAL, False)


def test_an_unexplained_23_is_partial() -> None:
    assert verdict(23, "rsync error: some files could not be transferred (code 23)").kind is Kind.PARTIAL


def test_a_file_name_is_never_taken_for_a_message() -> None:
    name = "is your shell clean sudo: a password is required Host key verification failed"
    assert verdict(23, DENIED.format(name)).kind is Kind.UNREADABLE


def test_a_name_that_is_not_utf_8_can_be_shown() -> None:  # case C13
    assert "/s/caf\\#351" in verdict(23, DENIED.format("caf\\#351")).sentence


def test_a_sentence_survives_braces_in_what_was_said() -> None:
    assert "{odd} {0}" in verdict(3, "rsync: {odd} {0}").sentence


def test_login_text_is_shown() -> None:  # case C04
    found = verdict(2, "protocol version mismatch -- is your shell clean?", noise="Welcome to node-a\n")
    assert "(“Welcome to node-a”)" in found.sentence


def test_the_sudoers_line_is_shown() -> None:  # case C05
    assert "`pi ALL=(root) NOPASSWD: /usr/bin/rsync`" in verdict(12, "sudo: a password is required").sentence


def test_where_there_is_no_space_is_said() -> None:  # case C09
    found = verdict(11, 'rsync: [receiver] write failed on "/b/x": No space left on device (28)')
    assert found.sentence.startswith("There is no space left at /backups;")


def test_an_unknown_code_shows_what_was_said_first() -> None:
    assert verdict(99, "first", "second").sentence == "rsync failed with code 99: first"
    assert verdict(99).sentence == "rsync failed with code 99: it gave no reason."
