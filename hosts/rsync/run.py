"""Run one copy and collect what it said."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hosts.rsync.output import (
    FileLine,
    Message,
    Progress,
    Stats,
    is_progress,
    parse_file,
    parse_message,
    parse_progress,
    parse_stat,
)
from hosts.rsync.process import Child, Line, Stream, log_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hosts.rsync.command import Remote

KEPT_MESSAGES = 1000
_PROGRESS_EVERY = 1.0  # seconds


class Copy(Protocol):
    """`command.Backup` or `command.Restore`."""

    def argv(self) -> list[bytes]: ...
    def stdin(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Finished:
    """`messages` holds the first and last lines of stderr, `message_count` how many there were.

    `others` counts those, of all of them, that are `Message.unexplained`, but for what a login says before rsync runs.
    """

    exit_code: int
    stats: Stats
    messages: tuple[Message, ...]
    message_count: int
    vanished: int = 0
    others: int = 0


def _ignore(_: object) -> None:
    return None


@dataclass(slots=True)
class _Listener:
    on_progress: Callable[[Progress], None]
    on_file: Callable[[FileLine], None]
    on_line: Callable[[str], None]
    stats: dict[str, int] = field(default_factory=dict)
    first: list[Message] = field(default_factory=list)
    last: list[Message] = field(default_factory=list)
    count: int = 0
    vanished: int = 0
    others: int = 0
    began: bool = False
    next_progress: float = 0.0

    def hear(self, stream: Stream, line: Line) -> None:
        if stream is Stream.STDERR:
            self._message(line)
            return
        self.began = True
        if not line.live and (file := parse_file(line.raw)):
            self.on_file(file)
        elif is_progress(line.raw):
            self._progress(line)
        elif not line.live and line.raw:
            self._output(line)

    def _progress(self, line: Line) -> None:
        """rsync draws one per file: all but one a second, and the last of all, go unread."""
        now = time.monotonic()
        if now < self.next_progress and (line.live or b"to-chk=0/" not in line.raw):
            return
        if progress := parse_progress(line.raw):
            self.next_progress = now + _PROGRESS_EVERY
            self.on_progress(progress)

    def _output(self, line: Line) -> None:
        if stat := parse_stat(line.raw):
            self.stats[stat[0]] = stat[1]
        self.on_line(_shown(line))

    def _message(self, line: Line) -> None:
        if line.live or not line.raw:
            return
        message = parse_message(line.raw)
        self.count += 1
        self.vanished += message.vanished
        self.began |= message.own
        self.others += self.began and message.unexplained
        if len(self.first) < KEPT_MESSAGES:
            self.first.append(message)
        else:
            self.last = [*self.last[-99:], message]
        self.on_line(_shown(line))

    def finished(self, exit_code: int) -> Finished:
        messages = (*self.first, *self.last)
        return Finished(exit_code, Stats(**self.stats), messages, self.count, self.vanished, self.others)


def _shown(line: Line) -> str:
    return log_text(line.raw) + (" … (line cut)" if line.cut else "")


def run_copy(
    copy: Copy,
    env: Mapping[str, str],
    *,
    check: Callable[[], None],
    on_progress: Callable[[Progress], None] = _ignore,
    on_file: Callable[[FileLine], None] = _ignore,
    on_line: Callable[[str], None] = _ignore,
) -> Finished:
    """Run a copy to its end. Call it from the main thread of the task (see `Child`).

    `check` is called at least every 0.5 s; what it raises stops the copy and is passed on when nothing of it is left
    here. `on_progress` is called at most once a second and at the end, `on_file` for every changed name, `on_line` for
    everything else, as printable text. Judge the result with `hosts.rsync.outcome.judge`.
    """
    listener = _Listener(on_progress, on_file, on_line)
    exit_code = Child(copy.argv(), env=env, stdin=copy.stdin()).run(listener.hear, check)
    return listener.finished(exit_code)


def login_noise(remote: Remote, env: Mapping[str, str], check: Callable[[], None]) -> str:
    """Return what the login scripts of the host print where a program's data should stand: at most 20 lines."""
    heard: list[str] = []

    def hear(stream: Stream, line: Line) -> None:
        if stream is Stream.STDOUT and not line.live and len(heard) < 20:
            heard.append(log_text(line.raw))

    Child(remote.echo_argv(), env=env).run(hear, check)
    return "\n".join(heard)
