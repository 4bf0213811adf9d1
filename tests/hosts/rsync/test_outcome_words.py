"""The sentences that a person reads, for the words that ssh, sudo, shells and rsync really say."""

from __future__ import annotations

import pytest

from hosts.rsync.command import BUSY_MARK, NO_FLOCK_MARK, NO_RSYNC_MARK
from hosts.rsync.outcome import KEPT_PATHS, Case, Kind, Verdict, judge
from hosts.rsync.output import parse_message

CLOSED = "rsync: connection unexpectedly closed (0 bytes received so far) [Receiver]"
CODE_12 = "rsync error: error in rsync protocol data stream (code 12) at io.c(232) [Receiver=3.2.7]"


def verdict(code: int, *lines: str, user: str = "pi") -> Verdict:
    messages = tuple(parse_message(line.encode("utf-8", "surrogateescape")) for line in lines)
    return judge(Case(code, messages, host="node-a", user=user, destination="/backups"))


@pytest.mark.parametrize("code", [12, 20, 127, 255])
@pytest.mark.parametrize(
    "said",
    [
        "bash: line 1: rsync: command not found",
        "sh: 1: rsync: not found",
        "fish: Unknown command: rsync",
        "zsh:1: command not found: rsync",
        "sudo: rsync: command not found",
        NO_RSYNC_MARK,
    ],
)
def test_a_host_without_rsync_is_told_so_whatever_the_code(code: int, said: str) -> None:  # case C03
    assert verdict(code, said, CLOSED).sentence == "rsync is missing on node-a; install the package rsync there."


def test_a_host_without_flock_is_told_so() -> None:
    found = verdict(127, NO_FLOCK_MARK, CLOSED)
    assert found.sentence == "flock is missing on node-a; install the package util-linux there."


@pytest.mark.parametrize(
    "said",
    [
        "sudo: sorry, you must have a tty to run sudo",
        "sudo: a terminal is required to read the password; either use the -S option to read from standard input",
        "sudo: a password is required",
        "sudo: interactive authentication is required",  # sudo-rs, case G11
        "sudo-rs: interactive authentication is required",
        "pi is not in the sudoers file.  This incident will be reported.",
        "Sorry, user pi may not run sudo on node-a.",
        "Sorry, user pi is not allowed to execute '/usr/bin/rsync --server' as root on node-a.",
        "sudo-rs: I'm sorry pi. I'm afraid I can't do that",  # case G11
    ],
)
def test_sudo_that_wants_a_person_is_told_with_the_line_that_helps(said: str) -> None:  # case C05
    found = verdict(12, said, CLOSED, CODE_12)
    assert found.kind is Kind.SUDO
    assert "add the line `pi ALL=(root) NOPASSWD: /usr/bin/rsync` with visudo there." in found.sentence


@pytest.mark.parametrize(
    "said",
    [
        "Host key verification failed.",
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
        "No ED25519 host key is known for node-a and you have requested strict checking.",
    ],
)
def test_another_host_key_is_told(said: str) -> None:  # case B03
    assert verdict(255, said, CLOSED).sentence.startswith("The host key of node-a is not the pinned one;")


@pytest.mark.parametrize(
    "said",
    [
        "pi@192.0.2.7: Permission denied (publickey).",
        "pi@192.0.2.7: Permission denied (publickey,password).",
        "Received disconnect from 192.0.2.7 port 22:2: Too many authentication failures",
    ],
)
def test_a_refused_key_is_told(said: str) -> None:
    assert verdict(255, said, CLOSED).sentence.startswith("node-a refuses the key of pi;")


@pytest.mark.parametrize(
    "said",
    [
        "ssh: connect to host 192.0.2.7 port 22: Connection refused",
        "ssh: connect to host 192.0.2.7 port 22: No route to host",
        "ssh: connect to host 192.0.2.7 port 22: Connection timed out",
        "ssh: Could not resolve hostname node-a: Temporary failure in name resolution",
        "kex_exchange_identification: read: Connection reset by peer",
        "Connection timed out during banner exchange",
    ],
)
def test_a_host_that_is_down_is_told(said: str) -> None:
    assert verdict(255, said, CLOSED).sentence.startswith("node-a cannot be reached over SSH;")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (12, "rsync: [sender] write error: Broken pipe (32)"),
        (12, "Connection to 192.0.2.7 closed by remote host."),
        (255, "Timeout, server 192.0.2.7 not responding."),
        (255, "client_loop: send disconnect: Connection reset by peer"),
        (255, "Read from remote host 192.0.2.7: Connection reset by peer"),
        (30, "rsync error: timeout in data send/receive (code 30) at io.c(200) [receiver=3.2.7]"),
        (10, "rsync error: error in socket I/O (code 10)"),
    ],
)
def test_a_lost_connection_is_told_and_no_missing_program(code: int, said: str) -> None:  # case C07
    found = verdict(code, said, CLOSED)
    assert found.kind is Kind.LOST
    assert not found.good


def test_a_silent_host_is_told_with_how_long_it_was_silent() -> None:
    assert verdict(30).sentence == "node-a sent nothing for 300 s, so the copy was given up."


@pytest.mark.parametrize("code", [10, 11, 12, 20, 23])
@pytest.mark.parametrize("reason", ["No space left on device (28)", "Disk quota exceeded (122)"])
def test_a_full_disk_is_told_whatever_the_code(code: int, reason: str) -> None:  # case C09
    found = verdict(code, CLOSED, f'rsync: [receiver] write failed on "/backups/x": {reason}')
    assert found.sentence == "There is no space left at /backups; free some, or give it a larger disk."
    assert found.paths == (b"/backups/x",)


def test_a_full_disk_outranks_the_names_that_could_not_be_read() -> None:
    denied = 'rsync: [sender] send_files failed to open "/s": Permission denied (13)'
    full = 'rsync: [receiver] mkstemp "/b/.x" failed: No space left on device (28)'
    assert verdict(23, denied, full).kind is Kind.FULL


@pytest.mark.parametrize(
    "said",
    [
        "rsync: on remote machine: --mkpath: unknown option",
        "rsync: --checksum-choice=md5: unknown option",
        "rsync: unknown checksum name: md5",
        "the --open-noatime option requires protocol 31 or higher",
    ],
)
def test_an_old_rsync_is_told(said: str) -> None:
    assert verdict(4, said).sentence == "rsync on node-a is too old; install version 3.2 or newer there."


def test_a_copy_that_runs_elsewhere_is_waited_for_on_the_right_side() -> None:  # case C18
    here, there = verdict(75), verdict(75, BUSY_MARK)
    assert (here.busy, there.busy, here.kind is there.kind) == (True, True, False)
    assert "on this server" in here.sentence
    assert "on node-a" in there.sentence


@pytest.mark.parametrize("number", [1, 9, 15])
def test_a_signal_is_named(number: int) -> None:
    assert verdict(-number).sentence == f"The copy was ended by signal {number}."


def test_one_vanished_file_is_one() -> None:  # case C01
    found = verdict(24, 'file has vanished: "/srv/a"')
    assert found.sentence == "1 file on node-a vanished during the copy; the rest is complete."


def test_the_same_name_is_counted_once() -> None:  # case C01
    assert verdict(24, *['file has vanished: "/srv/a"'] * 3).paths == (b"/srv/a",)


def test_names_are_kept_within_bounds() -> None:
    lines = [f'file has vanished: "/srv/{n}"' for n in range(KEPT_PATHS + 50)]
    assert len(verdict(24, *lines).paths) == KEPT_PATHS


def test_a_missing_source_outranks_names_that_cannot_be_read() -> None:  # case C02
    missing = 'rsync: [sender] change_dir "/srv/dta" failed: No such file or directory (2)'
    denied = 'rsync: [sender] opendir "/srv/x" failed: Permission denied (13)'
    assert verdict(23, denied, missing).kind is Kind.MISSING_SOURCE


def test_a_source_that_is_a_file_is_no_folder() -> None:  # case C02
    found = verdict(23, 'rsync: [sender] change_dir "/srv/file" failed: Not a directory (20)')
    assert found.sentence.startswith("/srv/file is not a folder on node-a;")


def test_a_read_error_names_the_file() -> None:
    found = verdict(23, 'rsync: [sender] read errors mapping "/srv/rot": Input/output error (5)')
    assert found.sentence == "Some of node-a was not copied: /srv/rot."


def test_an_unknown_end_shows_the_line_with_the_reason() -> None:
    found = verdict(5, "some banner", 'rsync: [sender] opendir "/x" failed: Too many open files (24)')
    assert found.sentence.startswith("rsync failed with code 5: rsync: [sender] opendir")


@pytest.mark.parametrize("user", ["pi", "backup-user", "o.brien", "{user}", "%s"])
def test_the_sudoers_line_names_the_login(user: str) -> None:
    assert f"`{user} ALL=(root)" in verdict(12, "sudo: a password is required", user=user).sentence
