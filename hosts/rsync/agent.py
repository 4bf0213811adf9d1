"""One ssh-agent and one ssh config per job: keys stay in memory, pins and addresses in a folder of the job."""

from __future__ import annotations

import base64
import io
import re
import socket
import subprocess
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Self

from hosts.rsync.command import environment, plain
from hosts.rsync.process import Child, Line, Stream, end_group, log_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

AGENT_SOCKET = "agent.sock"
MAX_SOCKET_PATH = 107  # bytes; sun_path of unix(7) holds 108 with its NUL
CONNECT_TIMEOUT = 15  # seconds
ALIVE_INTERVAL = 15  # seconds between keep-alives; a connection is lost after ALIVE_COUNT unanswered ones
ALIVE_COUNT = 4
_ANSWER = 10.0  # seconds that the agent may take; it is on this machine and has one thing to do
_REQUEST_IDENTITIES, _IDENTITIES_ANSWER = b"\x0b", b"\x0c"
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]*|::[A-Za-z0-9:.%]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+$-]*")
# ssh-agent is set-group-ID, and the kernel forgets the parent-death signal when such a program starts (prctl(2)).
# Without new privileges the bit is ignored; ssh-agent forbids tracing by itself.
_AGENT = ("setpriv", "--no-new-privs", "--pdeathsig", "KILL", "--", "ssh-agent", "-D", "-a")


class KeyRefused(Exception):
    """ssh-agent did not take a private key; the message is one sentence for people."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A machine on the way: where it is, who logs in, its pinned host keys (`type base64`), and its login key."""

    alias: str
    address: str
    user: str
    host_keys: Sequence[str]
    public_key_file: Path
    port: int = 22


def _checked(pattern: re.Pattern[str], value: str, what: str) -> str:
    if not pattern.fullmatch(value):
        raise ValueError(f"{value!r} is not a valid {what}.")
    return value


def known_hosts(hops: Sequence[Hop]) -> str:
    """Return the pins of all hops in known_hosts form, under their aliases."""
    return "".join(f"{plain(hop.alias)} {' '.join(key.split()[:2])}\n" for hop in hops for key in hop.host_keys)


def _block(hop: Hop, pins: Path, proxy: str) -> str:
    options = {
        "HostName": _checked(_ADDRESS, hop.address, "address").replace("%", "%%"),
        "Port": hop.port,
        "User": _checked(_USER, hop.user, "user name"),
        "HostKeyAlias": plain(hop.alias),
        "UserKnownHostsFile": plain(str(pins)),
        "IdentityFile": plain(str(hop.public_key_file)),
        "ProxyCommand": proxy,
    }
    return f"Host {plain(hop.alias)}\n" + "".join(f"    {name} {value}\n" for name, value in options.items())


_COMMON = f"""Host *
    IdentitiesOnly yes
    PreferredAuthentications publickey
    BatchMode yes
    StrictHostKeyChecking yes
    GlobalKnownHostsFile /dev/null
    UpdateHostKeys no
    CheckHostIP no
    CanonicalizeHostname no
    ClearAllForwardings yes
    ForwardAgent no
    ForwardX11 no
    PermitLocalCommand no
    ControlMaster no
    ControlPath none
    RequestTTY no
    ConnectTimeout {CONNECT_TIMEOUT}
    ServerAliveInterval {ALIVE_INTERVAL}
    ServerAliveCountMax {ALIVE_COUNT}
"""


def ssh_config(path: Path, pins: Path, hop: Hop, jump: Hop | None = None) -> str:
    """Return the text of the config file `path`; `pins` is the known_hosts file. Holds no secret.

    The jump host is a ProxyCommand, which is what ProxyJump expands to (ssh_config(5)), because the ssh that ProxyJump
    starts would have no parent-death signal. Raises ValueError for a value that could be read as more than itself.
    """
    through = "none"
    if jump is not None:
        through = f"setpriv --pdeathsig TERM ssh -F {plain(str(path))} -W [%h]:%p {plain(jump.alias)}"
    blocks = [_block(hop, pins, through)] + ([_block(jump, pins, "none")] if jump else [])
    return "".join([*blocks, _COMMON])


def held_keys(socket_path: Path) -> list[str]:
    """The public keys that an agent holds, as `type base64`. Raises OSError for an agent that does not answer.

    One question and one answer of draft-miller-ssh-agent, 3.5: a list of keys, each with a comment.
    """
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(_ANSWER)
        link.connect(str(socket_path))
        link.sendall(b"\x00\x00\x00\x01" + _REQUEST_IDENTITIES)
        with link.makefile("rb") as answer:
            whole = io.BytesIO(_string(answer))
    if whole.read(1) != _IDENTITIES_ANSWER:
        raise OSError("ssh-agent does not tell which keys it holds.")
    blobs = [(_string(whole), _string(whole))[0] for _ in range(int.from_bytes(whole.read(4), "big"))]
    return [f"{_string(io.BytesIO(blob)).decode()} {base64.b64encode(blob).decode()}" for blob in blobs]


def _string(source: IO[bytes]) -> bytes:
    """A length of four bytes, then that many (RFC 4251, 5)."""
    return source.read(int.from_bytes(source.read(4), "big"))


class JobAgent:
    """An ssh-agent for one job. Enter it from the main thread of the task: it dies with that thread.

    `folder` is a new or empty folder below a 0700 folder; its path has to be short, see MAX_SOCKET_PATH. What is
    written there (socket, public keys, pins, config) is removed at the end, the folder too.
    """

    def __init__(self, private_key: str, folder: Path) -> None:
        self._private_key = private_key
        self.folder = folder
        self._agent: subprocess.Popen[bytes] | None = None
        self.socket = folder / AGENT_SOCKET
        self.public_keys: list[Path] = []

    @property
    def env(self) -> Mapping[str, str]:
        """The environment for rsync and ssh."""
        return environment(str(self.socket))

    @property
    def pids(self) -> list[int]:
        """The pid of the agent, for those who look for what is left."""
        return [self._agent.pid] if self._agent else []

    def __enter__(self) -> Self:
        if len(bytes(self.socket)) > MAX_SOCKET_PATH:
            raise ValueError(f"{self.socket} is too long for a socket: set a runtime folder with a shorter path.")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._start()
            self.add(self._private_key)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def add(self, private_key: str) -> Path:
        """Load a further key, such as the jump host's, and return its public key file. Raises KeyRefused."""
        said: list[str] = []

        def hear(stream: Stream, line: Line) -> None:
            said.append(log_text(line.raw))

        key = private_key.replace("\r\n", "\n").strip() + "\n"
        if Child(("ssh-add", "-q", "-"), env=self.env, stdin=key.encode()).run(hear, _never):
            raise KeyRefused(_why_refused(" ".join(said)))
        return self._note_public_key()

    def write_config(self, hop: Hop, jump: Hop | None = None) -> Path:
        """Write pins and config for the way to `hop` and return the config's path, for `Remote.ssh_config`."""
        config, pins = self.folder / "ssh_config", self.folder / "known_hosts"
        pins.write_text(known_hosts([hop, jump] if jump else [hop]))
        config.write_text(ssh_config(config, pins, hop, jump))
        return config

    def _start(self) -> None:
        self._agent = subprocess.Popen(
            [*_AGENT, str(self.socket)],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        # It prints its address once it listens, and nothing when it cannot.
        if self._agent.stdout is None or not self._agent.stdout.readline():
            raise OSError(f"ssh-agent cannot listen on {self.socket}.")

    def _note_public_key(self) -> Path:
        path = self.folder / f"key{len(self.public_keys)}.pub"
        known = {known.read_text().strip() for known in self.public_keys}
        held = held_keys(self.socket)
        path.write_text(next((line for line in held if line not in known), held[-1]) + "\n")
        self.public_keys.append(path)
        return path

    def _end(self) -> None:
        if self._agent is not None:
            with self._agent:
                end_group(self._agent.pid)
        for left in (self.socket, *self.public_keys, self.folder / "ssh_config", self.folder / "known_hosts"):
            left.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def _never() -> None:
    return None


def _why_refused(said: str) -> str:
    if "passphrase" in said:
        return "The private key is protected by a passphrase; store it without one."
    return "The stored private key cannot be read; store it again in OpenSSH format."
