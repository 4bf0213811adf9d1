"""From an exit code and what was printed to a verdict in one plain sentence. Pure functions.

Exit codes are those of rsync(1); ssh's own failure is 255, a missing program 126 or 127, and 75 is the lock's.
The code alone is never enough: rsync reports ssh's status, its own 12, or both in turn, as the timing has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from errno import EDQUOT, ENOENT, ENOSPC, ENOTDIR
from typing import TYPE_CHECKING

from hosts.rsync.command import BUSY_EXIT, BUSY_MARK, NETWORK_TIMEOUT, NO_FLOCK_MARK, NO_RSYNC_MARK
from hosts.rsync.process import log_text, safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hosts.rsync.output import Message

KEPT_PATHS = 1000


class Kind(StrEnum):
    """What a finished copy amounts to."""

    OK = "ok"
    VANISHED = "vanished"  # good, some files went away meanwhile
    UNREADABLE = "unreadable"  # everything but names the login may not read
    UNWRITABLE = "unwritable"  # a restore: names the login may not write
    PARTIAL = "partial"
    MISSING_SOURCE = "missing_source"
    FULL = "full"
    BUSY_HERE = "busy_here"
    BUSY_THERE = "busy_there"
    NO_RSYNC = "no_rsync"
    NO_FLOCK = "no_flock"
    OLD_RSYNC = "old_rsync"
    NOISY = "noisy"
    SUDO = "sudo"
    HOST_KEY = "host_key"
    LOGIN_REFUSED = "login_refused"
    UNREACHABLE = "unreachable"
    LOST = "lost"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`paths` are the names in question (vanished, unreadable, missing …), by bytes, at most 1000."""

    kind: Kind
    sentence: str
    paths: tuple[bytes, ...] = ()

    @property
    def good(self) -> bool:
        """Whether the copy is whole: exit code 0, or 24 with nothing but vanished files."""
        return self.kind in (Kind.OK, Kind.VANISHED)

    @property
    def busy(self) -> bool:
        return self.kind in (Kind.BUSY_HERE, Kind.BUSY_THERE)


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged. `host` is the name for sentences, `user` its login, `destination` where the data should go.

    `push`: the host was written to. `others`: see `run.Finished`; None when `messages` are all that was said.
    """

    exit_code: int
    messages: Sequence[Message]
    host: str
    user: str = "USER"
    destination: str = "the destination"
    noise: str = ""
    push: bool = False
    others: int | None = None

    def text(self) -> str:
        """All that was said, without the names of files, which may say anything."""
        return "\n".join(log_text(message.text) for message in self.messages if message.path is None)

    def all_explained(self) -> bool:
        """Whether nothing was said but that names may not be read, or vanished."""
        others = sum(message.unexplained for message in self.messages) if self.others is None else self.others
        return not others

    def paths(self, wanted: Callable[[Message], bool]) -> tuple[bytes, ...]:
        found = (message.path for message in self.messages if message.path is not None and wanted(message))
        return tuple(dict.fromkeys(found))[:KEPT_PATHS]


_SUDO_LINE = "{user} ALL=(root) NOPASSWD: /usr/bin/rsync"
_SIGNS: tuple[tuple[Kind, str, str], ...] = (
    (Kind.BUSY_THERE, re.escape(BUSY_MARK), "Another copy is running on {host}."),
    (
        Kind.NO_FLOCK,
        re.escape(NO_FLOCK_MARK),
        "flock is missing on {host}; install the package util-linux there.",
    ),
    (
        Kind.NO_RSYNC,
        re.escape(NO_RSYNC_MARK) + r"|rsync: (?:command )?not found|[Uu]nknown command:? '?rsync"
        r"|command not found: rsync"
        r"|sudo: rsync: command not found",
        "rsync is missing on {host}; install the package rsync there.",
    ),
    (
        Kind.SUDO,
        r"sudo(?:-rs)?: .*(?:must have a tty|terminal is required|(?:password|authentication) is required"
        r"|not allowed|may not run)|user \S+ may not run sudo|I'm afraid I can't do that"
        r"|is not in the sudoers file|sudo: (?:command )?not found|user \S+ is not allowed to execute",
        "sudo on {host} does not let {user} run rsync without a password; "
        "add the line `" + _SUDO_LINE + "` with visudo there.",
    ),
    (
        Kind.HOST_KEY,
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known",
        "The host key of {host} is not the pinned one; compare the fingerprint and pin it again if it is right.",
    ),
    (
        Kind.LOGIN_REFUSED,
        r"Permission denied \(|Too many authentication failures",
        "{host} refuses the key of {user}; put its public key into ~/.ssh/authorized_keys there.",
    ),
    (
        Kind.UNREACHABLE,
        r"ssh: connect to host|Could not resolve hostname|Connection timed out during banner exchange"
        r"|kex_exchange_identification|banner exchange",
        "{host} cannot be reached over SSH; see whether it is on and its address and port are right.",
    ),
    (
        Kind.OLD_RSYNC,
        r"rsync: (?:on remote machine: )?-\S*: unknown option|unknown checksum name|protocol version mismatch.*\d"
        r"|requires protocol \d+ or higher",
        "rsync on {host} is too old; install version 3.2 or newer there.",
    ),
    (
        Kind.NOISY,
        r"is your shell clean",
        "Login scripts on {host} print text where rsync's data should stand{noise}; "
        "let them print for interactive shells only.",
    ),
)
_LOST_SIGN = (
    r"io timeout after|Timeout, server .* not responding|Connection reset by|Broken pipe|Connection closed by"
    r"|Connection to \S+ closed by remote host|client_loop: send disconnect|Write failed"
)
_LOST = "The connection to {host} was lost during the copy; run it again when the network is stable."
_FULL = "There is no space left at {destination}; free some, or give it a larger disk."
_EXITS = {
    BUSY_EXIT: (Kind.BUSY_HERE, "Another copy of {host} is running on this server."),
    10: (Kind.LOST, _LOST),
    12: (Kind.LOST, _LOST),
    20: (Kind.STOPPED, "The copy was stopped by a signal."),
    30: (Kind.LOST, f"{{host}} sent nothing for {NETWORK_TIMEOUT} s, so the copy was given up."),
    127: (Kind.NO_RSYNC, "rsync is missing on {host}; install the package rsync there."),
    255: (Kind.UNREACHABLE, "The SSH connection to {host} failed: {last}"),
}


def judge(case: Case) -> Verdict:
    """Return what a finished copy amounts to."""
    if case.exit_code == 0:
        return Verdict(Kind.OK, f"Everything on {case.host} that was asked for was copied.")
    if case.exit_code < 0:
        return Verdict(Kind.STOPPED, f"The copy was ended by signal {-case.exit_code}.")
    if case.exit_code == 24:
        return _vanished(case)
    return _by_sign(case) or _unwritable(case) or (_partial(case) if case.exit_code == 23 else _by_exit(case))


def _by_sign(case: Case) -> Verdict | None:
    if any(message.errno in (ENOSPC, EDQUOT) for message in case.messages):
        return Verdict(Kind.FULL, _fill(_FULL, case), case.paths(_errno(ENOSPC, EDQUOT)))
    text = case.text()
    for kind, sign, sentence in _SIGNS:
        if re.search(sign, text):
            return Verdict(kind, _fill(sentence, case))
    # Last, and never with 23: a side that gives up for a reason of its own breaks the pipe of the other.
    if case.exit_code != 23 and re.search(_LOST_SIGN, text):
        return Verdict(Kind.LOST, _fill(_LOST, case))
    return None


def _by_exit(case: Case) -> Verdict:
    kind, sentence = _EXITS.get(case.exit_code, (Kind.FAILED, "rsync failed with code {code}: {last}"))
    return Verdict(kind, _fill(sentence, case))


def _fill(sentence: str, case: Case) -> str:
    return sentence.format(
        host=case.host,
        user=case.user,
        destination=case.destination,
        noise=f" (“{case.noise.strip()[:200]}”)" if case.noise.strip() else "",
        code=case.exit_code,
        last=_reason(case),
    )


def _reason(case: Case) -> str:
    """The line that tells most: the first with an errno, else the first at all; never only rsync's closing line."""
    lines = [message for message in case.messages if message.errno is not None] or list(case.messages)
    return log_text(lines[0].text) if lines else "it gave no reason."


def _errno(*numbers: int) -> Callable[[Message], bool]:
    return lambda message: message.errno in numbers


def _named(paths: Sequence[bytes]) -> str:
    shown = ", ".join(safe_text(path) for path in paths[:3])
    return shown + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _vanished(case: Case) -> Verdict:
    paths = case.paths(lambda message: message.vanished)
    plural = "file" if len(paths) == 1 else "files"
    return Verdict(
        Kind.VANISHED, f"{len(paths)} {plural} on {case.host} vanished during the copy; the rest is complete.", paths
    )


def _unwritable(case: Case) -> Verdict | None:
    shut = case.paths(lambda message: message.denied and not message.by_sender) if case.push else ()
    if not shut:
        return None
    what = f"{case.user} may not write {len(shut)} of the names on {case.host}: {_named(shut)}"
    return Verdict(Kind.UNWRITABLE, f"{what}; allow sudo for rsync there, or choose another --to.", shut)


def _partial(case: Case) -> Verdict:
    missing = case.paths(lambda message: b"change_dir " in message.text and message.errno in (ENOENT, ENOTDIR))
    if missing:
        sentence = f"{_named(missing)} is not a folder on {case.host}; correct the source or mount its disk."
        return Verdict(Kind.MISSING_SOURCE, sentence, missing)
    denied = () if case.push else case.paths(lambda message: message.denied and message.by_sender)
    if denied and case.all_explained():
        sentence = f"{case.user} may not read {len(denied)} of the names on {case.host}: {_named(denied)}."
        return Verdict(Kind.UNREADABLE, sentence, denied)
    failed = case.paths(lambda message: message.errno is not None)
    named = _named(failed) or _reason(case)
    return Verdict(Kind.PARTIAL, f"Some of {case.host} was not copied: {named}.", failed)
