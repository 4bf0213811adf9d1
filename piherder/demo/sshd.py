"""A throw-away sshd on loopback, with levers to make it fail: for the demonstration, tests and benchmarks."""

import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hosts.host_key import HostKey, parse_public_line

MARK = "PIHERDER_SSHD"
SYSTEM_PATH = f"{os.defpath}:/usr/local/sbin:/usr/sbin:/sbin"


class SshdError(RuntimeError):
    """The server did not start; ``str()`` holds what it said."""


@dataclass(frozen=True, slots=True)
class SshdOptions:
    """What is unusual about a server.

    ``noise``: text that every login prints, as a careless shell start-up file does. ``path``: PATH of the sessions,
    to leave programs out. ``force_command``: what sshd runs in place of each command. ``extra``: lines for its
    configuration. ``key_types``: kinds of host key it offers, by the names of ssh-keygen.
    """

    noise: str = ""
    path: str = ""
    force_command: str = ""
    extra: tuple[str, ...] = ()
    key_types: tuple[str, ...] = ("ed25519",)


class Sshd:
    """One sshd in ``folder``, on 127.0.0.1 only, for the user who starts it (root or not).

    It has its own configuration, host keys and authorized_keys, asks PAM only for a locked account (which sshd refuses
    by itself), and ends with the process that started it. The port is chosen at the first start and kept.
    """

    def __init__(self, folder: Path, name: str, port: int | None = None, options: SshdOptions | None = None) -> None:
        self.folder, self.name = folder, name
        self.port = port or free_port()
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.options = options or SshdOptions()
        self._mark = secrets.token_hex(8)
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._authorized.touch(mode=0o600)
        self.make_host_keys()

    @property
    def _authorized(self) -> Path:
        return self.folder / "authorized_keys"

    @property
    def log(self) -> Path:
        """What sshd itself wrote."""
        return self.folder / "sshd.log"

    @property
    def host_key(self) -> HostKey:
        """The public key of the first kind in the options."""
        return parse_public_line(self._host_key_file(self.options.key_types[0]).with_suffix(".pub").read_text())

    @property
    def host_public_key(self) -> str:
        """``type base64``."""
        return self.host_key.line

    @property
    def host_key_fingerprint(self) -> str:
        """As OpenSSH prints it."""
        return self.host_key.fingerprint

    def _host_key_file(self, kind: str) -> Path:
        return self.folder / f"host_{kind}"

    def make_host_keys(self, *, anew: bool = False) -> None:
        """Make the missing host keys; with ``anew`` all, as a reinstalled host has. Takes effect at a start."""
        for kind in self.options.key_types:
            file = self._host_key_file(kind)
            if anew:
                file.unlink(missing_ok=True)
            if not file.exists():
                subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", self.name, "-f", file], check=True)

    def add_key(self, public: str) -> None:
        """Let the holder of this public key log in."""
        with self._authorized.open("a") as file:
            file.write(public.strip() + "\n")

    def start(self) -> "Sshd":
        """Start, and return when it accepts connections. Raises SshdError."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text("\n".join(self._config_lines()) + "\n")
        with self.log.open("ab") as log:
            argv = ["setpriv", "--pdeathsig", "TERM", "--", _program("sshd"), "-D", "-e", "-f", str(config)]
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        self._await_port(self._process)
        return self

    def _config_lines(self) -> Iterator[str]:
        yield f"ListenAddress 127.0.0.1:{self.port}"
        yield from (f"HostKey {self._host_key_file(kind)}" for kind in self.options.key_types)
        yield f"AuthorizedKeysFile {self._authorized}"
        yield f"PidFile {self.folder / 'sshd.pid'}"
        yield f"UsePAM {'yes' if _is_locked(self.user) else 'no'}"
        yield from ("StrictModes no", "LogLevel VERBOSE", "Subsystem sftp internal-sftp", "UseDNS no")
        yield from ("PermitRootLogin yes", "PasswordAuthentication no", "MaxStartups 300", "PrintMotd no")
        if _openssh_version() >= (9, 8):
            yield "PerSourcePenalties no"
        yield f"SetEnv {MARK}={self._mark}"
        if forced := self._forced():
            yield f"ForceCommand {forced}"
        yield from self.options.extra

    def _forced(self) -> str:
        if self.options.force_command:
            return self.options.force_command
        steps = []
        if self.options.noise:
            noise = self.folder / "noise"
            noise.write_text(self.options.noise)
            steps.append(f"cat {noise}; cat {noise} >&2; ")
        if self.options.path:
            # Not by SetEnv: the start-up files of the login shell run after that and may set PATH anew.
            steps.append(f"PATH={self.options.path}; export PATH; ")
        return "".join(steps) + 'eval "$SSH_ORIGINAL_COMMAND"' if steps else ""

    def _await_port(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as link:
                link.settimeout(5)
                if link.recv(4) == b"SSH-":
                    return
            time.sleep(0.02)
        self.stop()
        raise SshdError(f"sshd “{self.name}” did not start on port {self.port}: {self.log.read_text()[-500:]}")

    def processes(self) -> list[int]:
        """Process ids of the server, its connections and everything that runs through them."""
        root = {self._process.pid} if self._process else set()
        marked = {pid for pid in _all_pids() if self._is_marked(pid)}
        return sorted(_with_children(root | marked))

    def connections(self) -> list[int]:
        """Process ids of the server's side of open connections; the server itself and commands are not among them."""
        own = self._process.pid if self._process else 0
        return [pid for pid in self.processes() if pid != own and _command_name(pid).startswith("sshd")]

    def runs(self, pid: int) -> bool:
        """Whether a process was started through a login on this host."""
        return self._is_marked(pid)

    def _is_marked(self, pid: int) -> bool:
        wanted = f"{MARK}={self._mark}".encode()
        with suppress(OSError):
            return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return False

    def freeze(self) -> None:
        """Stop every process of the host, so that connections stay open and nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen host go on."""
        self._signal_all(signal.SIGCONT)

    def cut(self) -> None:
        """Kill the open connections; commands that run through them live on, as after a network failure."""
        for pid in self.connections():
            _signal(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the host as a power cut does: server, connections and commands; none lives to tell another's end."""
        self.freeze()
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End server, connections and commands; safe to call twice."""
        self._end(signal.SIGTERM)

    def restart(self) -> "Sshd":
        """Stop and start on the same port."""
        self.stop()
        return self.start()

    def __enter__(self) -> "Sshd":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in self.processes():
            _signal(pid, number)

    def _end(self, first: signal.Signals) -> None:
        """Collected before the first signal too: a child whose parent ended can no longer be traced to this server."""
        known = set(self.processes())
        deadline = time.monotonic() + 10
        number = first
        while known and time.monotonic() < deadline:
            for pid in known:
                _signal(pid, number)
                _signal(pid, signal.SIGCONT)
            if self._process:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(0.1)
            number = signal.SIGKILL
            known = {pid for pid in known | set(self.processes()) if _alive(pid)}
        if self._process:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)  # it may have ended after the last look, and somebody has to reap it
        self._process = None


def free_port() -> int:
    """A TCP port that is free on loopback now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def locked_in(shadow: str, user: str) -> bool:
    """Whether the text of /etc/shadow locks a user's password with “!”: sshd without PAM then refuses keys as well."""
    fields = [line.split(":") for line in shadow.splitlines()]
    return any(words[0] == user and words[1].startswith("!") for words in fields if len(words) > 1)


def _is_locked(user: str) -> bool:
    """False where /etc/shadow may not be read: an sshd without root cannot ask it or PAM either."""
    with suppress(OSError):
        return locked_in(Path("/etc/shadow").read_text(), user)
    return False


def _program(name: str) -> str:
    """Full path, which sshd needs to start itself again for each connection. Raises SshdError."""
    found = shutil.which(name, path=SYSTEM_PATH) or shutil.which(name)
    if not found:
        raise SshdError(f"{name} is not installed: install the package openssh-server.")
    return found


def _openssh_version() -> tuple[int, int]:
    """Of the ssh client, which comes from the same source as the server; ``ssh -V`` writes to stderr."""
    said = subprocess.run([_program("ssh"), "-V"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"OpenSSH_(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _all_pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _stat(pid: int) -> Sequence[str]:
    """Fields of /proc/PID/stat after the name, from the state on (proc(5)); empty when the process is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
    return ()


def _command_name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _alive(pid: int) -> bool:
    return bool(fields := _stat(pid)) and fields[0] not in "ZX"


def _with_children(roots: set[int]) -> set[int]:
    """``roots`` and all their descendants that are alive."""
    parents = {pid: int(fields[1]) for pid in _all_pids() if (fields := _stat(pid)) and fields[0] not in "ZX"}
    found = {pid for pid in roots if pid in parents}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
