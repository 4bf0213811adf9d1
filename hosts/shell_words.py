"""Pure parts of speaking to a host's shell: what is sent, and how the answer is cut from the noise around it.

The login shell may be fish or csh, which read quotes and backslashes in their own way, so it sees one short fixed
line without anything they treat specially. Everything else travels on stdin, in frames whose length that line names;
``dd bs=1`` takes exactly its frame and leaves the rest, which a shell that reads ahead would not. So neither scripts
nor variables nor passwords are ever in an argument list.
"""

import re
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

SudoMode = Literal["root", "passwordless", "password", "none"]
OnLine = Callable[[str, str], None]

LINE_LIMIT = 64 * 1024
REFUSAL_LIMIT = 8 * 1024
TAG_LIMIT = 160
CUT_MARK = "[cut here]"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_READ = 'eval "$(dd bs=1 count={size} 2>/dev/null)"'
_RAN = 'n=$1; shift; printf "%s:ran:;" "$n"; printf "%s:ran:;" "$n" >&2; unset n; '
# A sudoers rule without a password leaves the password unread: skip to the line that holds the nonce.
_SKIP_PASSWORD = 'while IFS= read -r l && [ "$l" != "$1" ]; do :; done; unset l; '

# The leader tells its process id, which is also that of its new session, and the boot it belongs to.
_OUTER = """\
n={nonce}
b=unknown
[ -r /proc/sys/kernel/random/boot_id ] && read -r b </proc/sys/kernel/random/boot_id
s=
command -v setsid >/dev/null 2>&1 && s=setsid
$s /bin/sh -c 'printf "%s:begin:%s %s;" "$1" "$$" "$2"; printf "%s:begin:;" "$1" >&2; shift 2; exec "$@"' \
sh "$n" "$b" {launch}
c=$?
printf '%s:end:%s;' "$n" "$c"
printf '%s:end:;' "$n" >&2
"""

_STOP = """\
b=unknown
[ -r /proc/sys/kernel/random/boot_id ] && read -r b </proc/sys/kernel/random/boot_id
[ "$b" = {boot} ] || {{ echo gone; exit 0; }}
sessions=' {pid} '
scan() {{
  members=' '
  grown=1
  while [ "$grown" = 1 ]; do
    grown=0
    for f in /proc/[0-9]*/stat; do
      {{ read -r line <"$f"; }} 2>/dev/null || continue
      pid=${{line%% *}}
      set -- ${{line##*) }}
      case "$1" in Z|X) continue;; esac
      case "$members" in *" $pid "*) continue;; esac
      case "$sessions" in
        *" $4 "*) ;;
        *) case "$members" in *" $2 "*) ;; *) [ "$pid" = {pid} ] || continue;; esac;;
      esac
      members="$members$pid "
      grown=1
      [ "$pid" != "$4" ] || sessions="$sessions$pid "
    done
  done
}}
round=0
while scan; [ "$members" != ' ' ]; do
  [ "$round" -lt {last} ] || {{ echo left $members; exit 0; }}
  if [ "$round" -ge {kill} ]; then kill -KILL $members 2>/dev/null
  elif [ "$round" = 0 ]; then kill -TERM $members 2>/dev/null; kill -CONT $members 2>/dev/null; fi
  round=$((round + 1))
  sleep 0.2
done
echo gone
"""


@dataclass(frozen=True, slots=True)
class Leader:
    """First process of a command on the host: its process id and the boot it belongs to."""

    pid: int
    boot: str


@dataclass(frozen=True, slots=True)
class Framed:
    """One command ready to be sent: the line for the login shell and the bytes for its stdin."""

    nonce: str
    line: str
    stdin: bytes


def to_bytes(text: str) -> bytes:
    """Bytes for the host; file names that were no UTF-8 come back as the bytes they were. Raises ValueError on NUL."""
    if "\0" in text:
        raise ValueError("a command or script for a host cannot hold a NUL character")
    return text.encode("utf-8", "surrogateescape")


def exports(env: Mapping[str, str]) -> str:
    """Shell lines that set ``env``; raises ValueError for a name that is no variable name."""
    for name in env:
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is not a name for an environment variable")
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())


def command_body(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The script that turns into the program ``argv``."""
    if not argv:
        raise ValueError("a command needs at least the name of a program")
    return f"{exports(env)}exec {shlex.join(argv)}\n"


def launch_words(mode: SudoMode, size: int, nonce: str) -> list[str]:
    """Argument list that runs the inner frame of ``size`` bytes as the user, or as root through sudo."""
    boot = _RAN + _READ.format(size=size)
    if mode == "passwordless":
        return ["sudo", "-n", "/bin/sh", "-c", boot, "sh", nonce]
    if mode == "password":
        # -k: with a cached login sudo would not read the password, and how many lines it takes would depend on chance.
        return ["sudo", "-k", "-S", "-p", "", "/bin/sh", "-c", _SKIP_PASSWORD + boot, "sh", nonce]
    return ["/bin/sh", "-c", boot, "sh", nonce]


def frame(body: str, *, mode: SudoMode = "root", password: str = "", stdin: bytes = b"") -> Framed:
    """Everything needed to run the sh script ``body``, which then reads ``stdin``."""
    nonce = f"piherder-{secrets.token_hex(12)}"
    inner = to_bytes(body)
    launch = shlex.join(launch_words(mode, len(inner), nonce))
    outer = to_bytes(_OUTER.format(nonce=nonce, launch=launch))
    secret = to_bytes(f"{password}\n{nonce}\n") if mode == "password" else b""
    return Framed(nonce, f"/bin/sh -c '{_READ.format(size=len(outer))}'", outer + secret + inner + stdin)


def stop_script(leader: Leader, grace: float) -> str:
    """Script that ends a command with all its children: TERM, after ``grace`` seconds KILL; prints ``gone`` or ``left
    PIDS``.

    A child belongs to it by session or by descent, so one that started a session of its own (sudo with a pty) is
    found too. Zombies count as gone. After a reboot of the host everything is gone.
    """
    rounds = max(1, round(grace / 0.2))
    return _STOP.format(pid=leader.pid, boot=shlex.quote(leader.boot), kill=rounds, last=rounds + 50)


class Cutter:
    """Cuts one stream of a command from what came before and after it (login text, sudo's words, logout text)."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce.encode()
        self._tag = re.compile(re.escape(self._nonce) + rb":(begin|ran|end):([^;]{0,100});")
        self._held = b""
        self._refusal = bytearray()
        self.phase = "noise"
        self.fields: dict[str, str] = {}

    @property
    def refusal(self) -> str:
        """What came after the start but before the command itself ran: sudo's reason to refuse."""
        return plain_text(bytes(self._refusal)).strip()

    def feed(self, data: bytes) -> bytes:
        """The part of ``data`` (and of what was held back) that the command itself wrote."""
        body = bytearray()
        rest = self._held + data
        while found := self._tag.search(rest):
            self._take(rest[: found.start()], body)
            self.phase = found[1].decode()
            self.fields[self.phase] = found[2].decode("ascii", "replace")
            rest = rest[found.end() :]
        keep = self._possible_tag(rest)
        self._take(rest[:keep], body)
        self._held = rest[keep:]
        return bytes(body)

    def finish(self) -> bytes:
        """What was held back, when the stream ends without an end tag."""
        body = bytearray()
        self._take(self._held, body)
        self._held = b""
        return bytes(body)

    def _take(self, data: bytes, body: bytearray) -> None:
        if self.phase == "ran":
            body += data
        elif self.phase == "begin":
            self._refusal += data
            del self._refusal[:-REFUSAL_LIMIT]

    def _possible_tag(self, rest: bytes) -> int:
        """Where a tag may have begun that is not complete yet; the length of ``rest`` when there is none."""
        at = rest.rfind(self._nonce)
        if at >= 0 and len(rest) - at < TAG_LIMIT:
            return at
        for size in range(min(len(self._nonce) - 1, len(rest)), 0, -1):
            if self._nonce.startswith(rest[-size:]):
                return len(rest) - size
        return len(rest)


def plain_text(data: bytes) -> str:
    """Text for people and PostgreSQL: what is no UTF-8 is replaced, NUL is left out."""
    return data.decode("utf-8", "replace").replace("\0", "")


def last_segment(line: bytes) -> bytes:
    """What a terminal shows of a line that was overwritten by carriage returns: the last part that is not empty."""
    return next((part for part in reversed(line.split(b"\r")) if part), b"")


class Lines:
    """Splits a stream into lines; what carriage returns overwrote is one line, a long one is cut at LINE_LIMIT."""

    def __init__(self) -> None:
        self._tail = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that ``data`` completes."""
        *whole, tail = (self._tail + data).split(b"\n")
        if b"\r" in tail:
            tail = last_segment(tail) + (b"\r" if tail.endswith(b"\r") else b"")
        self._tail = tail[: LINE_LIMIT + 1]
        return [_short(last_segment(line)) for line in whole]

    def finish(self) -> list[str]:
        """The last line, when it has no newline."""
        tail, self._tail = last_segment(self._tail), b""
        return [_short(tail)] if tail else []


def _short(line: bytes) -> str:
    return plain_text(line[:LINE_LIMIT]) + (CUT_MARK if len(line) > LINE_LIMIT else "")


class Bounded:
    """Keeps the first and the last half of ``limit`` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.cut = False

    def feed(self, data: bytes) -> None:
        """Add ``data``; drops from the middle."""
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._half:
            self.cut = True
            del self._tail[: -self._half]

    def text(self) -> str:
        """What was kept, with a mark where something is missing."""
        mark = f"\n{CUT_MARK}\n".encode() if self.cut else b""
        return plain_text(bytes(self._head) + mark + bytes(self._tail))


class Stream:
    """One of the two output streams of a command: cut, kept within bounds, and told line by line."""

    def __init__(self, name: str, nonce: str, limit: int, on_line: OnLine | None) -> None:
        self.name = name
        self.cutter = Cutter(nonce)
        self.kept = Bounded(limit)
        self._lines = Lines()
        self._on_line = on_line

    @property
    def ended(self) -> bool:
        """Whether the end tag was seen."""
        return self.cutter.phase == "end"

    def feed(self, data: bytes) -> None:
        """Take bytes as they came from the channel."""
        self._keep(self.cutter.feed(data))

    def finish(self) -> None:
        """Tell the last, unfinished line."""
        self._keep(self.cutter.finish())
        self._tell(self._lines.finish())

    def _keep(self, body: bytes) -> None:
        self.kept.feed(body)
        if self._on_line:
            self._tell(self._lines.feed(body))

    def _tell(self, lines: list[str]) -> None:
        for line in lines:
            if self._on_line:
                self._on_line(self.name, line)


def refusal_sentence(host: str, user: str, reason: str, *, password_stored: bool) -> str:
    """Why sudo refused, and the sudoers line that helps."""
    said = next((line for line in reversed(reason.splitlines()) if line.strip()), "no reason given").strip()
    if "not found" in said:
        return f"sudo is not installed on {host}: install it there, or let the herder log in as root."
    lines = [f"{user} ALL=(root) NOPASSWD: ALL"]
    if "must have a tty" in said:
        lines.insert(0, f"Defaults:{user} !requiretty")
    tried = "did not accept the stored sudo password of" if password_stored else "wants a password from"
    added = " and ".join(f"“{line}”" for line in lines)
    return f"sudo on {host} {tried} {user} ({said.rstrip('.')}): add {added} to /etc/sudoers.d/piherder with visudo."
