"""SSH to a host: one connection, many commands, nothing installed on the other side.

A connection is opened with ``connect`` and used through ``Shell.run`` and ``Shell.script``. The host must show a key
that was pinned before. Errors are those of ``hosts.ssh_errors``.
"""

import logging
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Final, Self

import paramiko

from hosts import shell_words as words
from hosts.host_keys import HostKey, algorithms_for, authenticate, open_socket, remote_key, shake_hands
from hosts.shell_words import Leader, OnLine, SudoMode
from hosts.ssh_errors import CommandTimeout, HostDown, HostRefused, LostContact, SshError, StopUnconfirmed, SudoRefused
from hosts.ssh_target import Result, Target, Timeouts
from hosts.tcp import tcp_open
from hosts.watchdog import Watchdog

__all__ = [
    "CommandTimeout", "HostDown", "HostKey", "HostRefused", "LostContact", "Result", "Shell", "SshError",
    "StopUnconfirmed", "SudoRefused", "Target", "Timeouts", "connect", "tcp_open",
]  # fmt: skip

CHECK_EVERY: Final = 0.25
LIMIT: Final = 4 * 1024 * 1024
PIECE: Final = 64 * 1024
# Parsers read English words and UTF-8 names, whatever the host is set to.
DEFAULT_ENV: Final = {"LC_ALL": "C.UTF-8"}

# Paramiko logs a traceback for each host that does not answer; all of them come back as exceptions anyway.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


def _nothing() -> None:
    """The check of those who cannot be cancelled."""


def connect(target: Target, *, timeouts: Timeouts | None = None, check: Callable[[], None] = _nothing) -> "Shell":
    """Log in. ``check`` is called now and then while a command runs and may raise to stop it.

    Raises HostDown (wait and try again) or HostRefused (a person must act).
    """
    limits = timeouts or Timeouts()
    check()
    jump = connect(target.jump, timeouts=limits, check=check) if target.jump else None
    try:
        transport = _log_in(target, limits, jump)
    except BaseException:
        if jump:
            jump.close()
        raise
    return Shell(target, transport, limits, check, jump)


def _log_in(target: Target, limits: Timeouts, jump: "Shell | None") -> paramiko.Transport:
    if not target.pins:
        raise HostRefused(
            f"The host key of {target.where} was never confirmed: compare its fingerprint and pin it.",
            "host_key_unknown",
        )
    link = (
        jump.open_tcp(target.address, target.port)
        if jump
        else open_socket(target.address, target.port, limits.connect, target.where)
    )
    algorithms = algorithms_for([pin.key_type for pin in target.pins])
    transport = shake_hands(link, algorithms, target.where, limits.banner)
    try:
        target.refuse_other_key(remote_key(transport))
        authenticate(transport, target, limits.auth)
    except BaseException:
        transport.close()
        raise
    return transport


class _Exchange:
    """One command on one channel: its stdin on the way out, its two streams on the way in."""

    def __init__(self, channel: paramiko.Channel, framed: words.Framed, limit: int, on_line: OnLine | None) -> None:
        self._channel = channel
        self._input = memoryview(framed.stdin)
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)
        self.out = words.Stream("stdout", framed.nonce, limit, on_line)
        self.err = words.Stream("stderr", framed.nonce, limit, on_line)
        channel.exec_command(framed.line)

    @property
    def finished(self) -> bool:
        """The command told its end, or the session is over; a child that keeps the streams open is not waited for."""
        if self.out.ended and self.err.ended:
            return True
        over = bool(self._channel.closed or self._channel.eof_received)
        return over and not self._channel.recv_ready() and not self._channel.recv_stderr_ready()

    @property
    def leader(self) -> Leader | None:
        """Known as soon as the command has begun."""
        pid, _, boot = self.out.cutter.fields.get("begin", "").partition(" ")
        return Leader(int(pid), boot) if pid.isdigit() else None

    def pump(self, wait: float) -> None:
        """Move what can be moved; when nothing can, wait up to ``wait`` seconds for the host."""
        if self._send() | self._receive():
            return
        self._poll.poll(int(1000 * (min(wait, 0.02) if self._input else wait)))

    def _send(self) -> bool:
        moved = False
        try:
            while self._input and self._channel.send_ready():
                self._input = self._input[self._channel.send(bytes(self._input[:PIECE])) :]
                moved = True
            if not self._input and not self._channel.eof_sent:
                self._channel.shutdown_write()
        except (OSError, EOFError):
            self._input = self._input[:0]
        return moved

    def _receive(self) -> bool:
        moved = False
        if self._channel.recv_ready():
            self.out.feed(self._channel.recv(PIECE))
            moved = True
        if self._channel.recv_stderr_ready():
            self.err.feed(self._channel.recv_stderr(PIECE))
            moved = True
        return moved

    def result(self) -> Result:
        self.out.finish()
        self.err.finish()
        told = self.out.cutter.fields.get("end", "")
        status = int(told) if told.isdigit() else None
        return Result(status, self.out.kept.text(), self.err.kept.text(), self.out.kept.cut or self.err.kept.cut)

    def close(self) -> None:
        self._channel.close()


class Shell:
    """An open connection. A context manager; for one thread."""

    def __init__(
        self,
        target: Target,
        transport: paramiko.Transport,
        timeouts: Timeouts,
        check: Callable[[], None],
        jump: "Shell | None",
    ) -> None:
        self.target, self.timeouts = target, timeouts
        self._transport, self._check, self._jump = transport, check, jump
        self._watchdog = Watchdog(self._ask, transport.close, timeouts.probe, timeouts.probes)
        self._mode: SudoMode | None = None
        self._refusal = ""

    @property
    def server_host_key(self) -> HostKey:
        """The key the host has shown, which is one of the pinned ones."""
        return remote_key(self._transport)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Passwords that this connection knows, for whoever shows its output."""
        return tuple(filter(None, (self.target.sudo_password, self.target.login_password)))

    @property
    def alive(self) -> bool:
        """Whether the connection stands, as far as is known."""
        return self._transport.is_active()

    def _ask(self) -> bool:
        """Ask for a sign of life and wait for it; OpenSSH refuses this unknown request, which is one."""
        try:
            self._transport.global_request("keepalive@openssh.com", wait=True)
        except (paramiko.SSHException, EOFError, OSError):
            return False
        return self.alive

    def close(self) -> None:
        """Close the connection and the one to its jump host; safe to call twice."""
        self._watchdog.stop()
        self._transport.close()
        if self._jump:
            self._jump.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open_tcp(self, address: str, port: int) -> paramiko.Channel:
        """A connection from this host to another, for its use as a jump host. Raises HostDown."""
        try:
            return self._transport.open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=self.timeouts.channel
            )
        except (paramiko.SSHException, EOFError, OSError):
            raise HostDown(f"The jump host {self.target.name} cannot reach {address} port {port}: is it on?") from None

    def run(
        self,
        argv: Sequence[str],
        *,
        sudo: bool = False,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        on_line: OnLine | None = None,
        limit: int = LIMIT,
    ) -> Result:
        """Run the program ``argv``; see ``script``."""
        body = words.command_body(argv, {**DEFAULT_ENV, **(env or {})})
        return self._start(body, sudo, stdin, timeout, on_line, limit)

    def script(
        self,
        text: str,
        *,
        sudo: bool = False,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        on_line: OnLine | None = None,
        limit: int = LIMIT,
    ) -> Result:
        """Run the POSIX sh script ``text`` and wait for its end; a non-zero exit status is a result, no error.

        ``env`` is set inside the sudo call; LC_ALL is C.UTF-8 unless given. ``stdin`` is sent and closed. ``timeout``
        in seconds; ``limit`` in bytes bounds each kept stream, the middle is dropped. ``on_line(stream name, text)``
        gets each line. Raises LostContact, SudoRefused, CommandTimeout; what ``check`` or ``on_line`` raises goes on
        once the processes on the host are gone, else StopUnconfirmed is raised from it.
        """
        body = words.exports({**DEFAULT_ENV, **(env or {})}) + text + "\n"
        return self._start(body, sudo, stdin, timeout, on_line, limit)

    def sudo_mode(self) -> SudoMode:
        """How this user becomes root; asked once per connection."""
        if self._mode is None:
            self._mode = self._find_mode()
        return self._mode

    def _find_mode(self) -> SudoMode:
        if self._start("id -u", False, None, None, None, LIMIT).stdout.strip() == "0":
            return "root"
        if self._may(["sudo", "-n"], b""):
            return "passwordless"
        secret = self.target.sudo_password
        # Sent once and alone: a wrong password must not make sudo take what follows for further attempts.
        if secret and self._may(["sudo", "-k", "-S", "-p", ""], words.to_bytes(secret + "\n")):
            return "password"
        return "none"

    def _may(self, sudo: list[str], stdin: bytes) -> bool:
        result = self.run([*sudo, "/bin/sh", "-c", "echo root:$(id -u)"], stdin=stdin, timeout=60)
        self._refusal = result.stderr
        return "root:0" in result.stdout.splitlines()

    def _start(
        self, body: str, sudo: bool, stdin: bytes | None, timeout: float | None, on_line: OnLine | None, limit: int
    ) -> Result:
        self._check()
        mode: SudoMode = self.sudo_mode() if sudo else "root"
        if mode == "none":
            raise self._sudo_refused(self._refusal)
        framed = words.frame(body, mode=mode, password=self.target.sudo_password or "", stdin=stdin or b"")
        deadline = time.monotonic() + timeout if timeout else None
        with closing(self._exchange(framed, limit, on_line)) as exchange:
            try:
                self._follow(exchange, deadline, self._check)
            except LostContact:
                raise
            except BaseException as stop:
                self._end(exchange, mode, stop)
                raise
            return self._judged(exchange, sudo)

    def _exchange(self, framed: words.Framed, limit: int, on_line: OnLine | None) -> _Exchange:
        try:
            channel = self._transport.open_session(timeout=self.timeouts.channel)
            return _Exchange(channel, framed, limit, on_line)
        except (paramiko.SSHException, EOFError, OSError):
            raise self._lost() from None

    def _follow(self, exchange: _Exchange, deadline: float | None, check: Callable[[], None]) -> None:
        checked = time.monotonic()
        while not exchange.finished:
            exchange.pump(CHECK_EVERY)
            now = time.monotonic()
            if now - checked >= CHECK_EVERY:
                check()
                checked = now
            if deadline and now > deadline:
                raise CommandTimeout(f"A command on {self.target.name} took too long and was stopped.")

    def _judged(self, exchange: _Exchange, sudo: bool) -> Result:
        result = exchange.result()
        if sudo and "ran" not in exchange.out.cutter.fields and result.exit_status is not None:
            raise self._sudo_refused(exchange.err.cutter.refusal)
        if result.exit_status is None and not self._stays_alive():
            raise self._lost()
        return result

    def _stays_alive(self) -> bool:
        """The end of the channel is told shortly before that of the connection it was part of."""
        self._transport.join(0.5)
        return self.alive

    def _lost(self) -> LostContact:
        return LostContact(f"The connection to {self.target.where} was lost: whether the command finished is unknown.")

    def _sudo_refused(self, reason: str) -> SudoRefused:
        stored = self.target.sudo_password is not None
        return SudoRefused(words.refusal_sentence(self.target.name, self.target.user, reason, password_stored=stored))

    def _end(self, exchange: _Exchange, mode: SudoMode, cause: BaseException) -> None:
        """End the command on the host and make sure that it is gone. Raises StopUnconfirmed."""
        deadline = time.monotonic() + self.timeouts.confirm
        while not (exchange.leader or exchange.finished) and time.monotonic() < deadline:
            exchange.pump(CHECK_EVERY)
        shell, pause = (self if self.alive else None), threading.Event()
        while exchange.leader and time.monotonic() < deadline:
            try:
                if self._stop_over(shell, exchange.leader, mode, deadline):
                    return
            except SshError:
                pause.wait(min(1.0, max(0.0, deadline - time.monotonic())))
            shell = None
        raise StopUnconfirmed(
            f"{self.target.where} could not be asked whether the stopped command is gone: look there "
            "before the next run."
        ) from cause

    def _stop_over(self, shell: "Shell | None", leader: Leader, mode: SudoMode, deadline: float) -> bool:
        """Whether the command is gone, asked over ``shell`` or, when it is None, over a new connection."""
        if shell is None:
            with connect(self.target, timeouts=self.timeouts) as fresh:
                return self._stop_over(fresh, leader, mode, deadline)
        script = words.stop_script(leader, self.timeouts.stop)
        framed = words.frame(script, mode=mode, password=self.target.sudo_password or "")
        with closing(shell._exchange(framed, LIMIT, None)) as exchange:
            shell._follow(exchange, deadline, _nothing)
            return exchange.result().stdout.strip() == "gone"
