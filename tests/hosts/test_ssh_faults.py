"""Hosts that are down, frozen, cut off or not who they were, and commands that must be stopped; all for real."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from hosts.host_keys import generate_key
from hosts.ssh import (
    CommandTimeout,
    HostDown,
    HostRefused,
    LostContact,
    Shell,
    StopUnconfirmed,
    Timeouts,
    connect,
    tcp_open,
)
from piherder.demo.sshd import Sshd, free_port
from tests.hosts.conftest import QUICK, MakeSshd, MakeTarget

HASTY = replace(QUICK, confirm=3)


class Cancel(Exception):
    """What a runner's check raises."""


class Greeter(socketserver.ThreadingTCPServer):
    """Accepts, sends ``words`` and closes; without words it closes at once."""

    daemon_threads = True
    words = b""

    def finish_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        request.sendall(self.words)


@contextmanager
def greeter(words: bytes) -> Iterator[int]:
    with Greeter(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        server.words = words
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@contextmanager
def silent() -> Iterator[int]:
    """A port where the kernel accepts and nobody ever speaks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True


# --- who answers


def test_banner_that_never_comes(sshd: Sshd, target_of: MakeTarget) -> None:  # case G01
    started = time.monotonic()
    with silent() as port, pytest.raises(HostDown, match=r"calm .*no answer in time"):
        connect(target_of(sshd, port=port), timeouts=QUICK)
    assert time.monotonic() - started < QUICK.banner + 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak SSH"),
        (b"SSH-1.5-old\r\n", "SSH"),
    ],
)
def test_port_that_speaks_no_ssh(sshd: Sshd, target_of: MakeTarget, words: bytes, reason: str) -> None:  # case G01
    with greeter(words) as port, pytest.raises((HostDown, HostRefused), match=reason):
        connect(target_of(sshd, port=port), timeouts=QUICK)


def test_one_bad_host_does_not_harm_the_next(sshd: Sshd, target_of: MakeTarget) -> None:  # case G01
    with silent() as port, pytest.raises(HostDown):
        connect(target_of(sshd, port=port), timeouts=replace(QUICK, banner=0.5))
    with connect(target_of(sshd), timeouts=QUICK) as shell:
        assert shell.run(["echo", "fine"]).stdout == "fine\n"


def test_closed_port(sshd: Sshd, target_of: MakeTarget) -> None:
    with pytest.raises(HostDown, match=r"calm .*refused"):
        connect(target_of(sshd, port=free_port()), timeouts=QUICK)


def test_unknown_name(sshd: Sshd, target_of: MakeTarget) -> None:
    with pytest.raises(HostDown, match=r"no-such-host\.invalid is unknown"):
        connect(target_of(sshd, address="no-such-host.invalid"), timeouts=QUICK)


def test_the_limits_of_a_login_stay_below_fifteen_seconds() -> None:
    limits = Timeouts()
    assert limits.connect + limits.banner + limits.auth < 15
    assert limits.probe * limits.probes <= 30


def test_wrong_login_key(sshd: Sshd, target_of: MakeTarget) -> None:
    with pytest.raises(HostRefused, match=r"calm .* does not let") as refused:
        connect(target_of(sshd, private_key=generate_key("other")[0]), timeouts=QUICK)
    assert refused.value.code == "auth_failed"


def test_unknown_user(sshd: Sshd, target_of: MakeTarget) -> None:
    with pytest.raises(HostRefused) as refused:
        connect(target_of(sshd, user="no-such-user"), timeouts=QUICK)
    assert refused.value.code == "auth_failed"


def test_wrong_password(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    target = target_of(make_sshd(extra=("KbdInteractiveAuthentication no",)), private_key="", login_password="Pa55word")
    with pytest.raises(HostRefused, match="password") as refused:
        connect(target, timeouts=QUICK)
    assert refused.value.code == "auth_failed"
    assert "Pa55word" not in str(refused.value)


def test_unreadable_login_key(sshd: Sshd, target_of: MakeTarget) -> None:
    with pytest.raises(HostRefused, match="login key stored for calm is unusable") as refused:
        connect(target_of(sshd, private_key="no key"), timeouts=QUICK)
    assert refused.value.code == "auth_failed"


def test_host_without_a_pin_is_not_trusted(sshd: Sshd, target_of: MakeTarget) -> None:
    with pytest.raises(HostRefused) as refused:
        connect(target_of(sshd, pins=()), timeouts=QUICK)
    assert refused.value.code == "host_key_unknown"


def test_changed_host_key_is_told_with_both_fingerprints(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd()
    target, before = target_of(server), server.host_key_fingerprint
    server.stop()
    server.make_host_keys(anew=True)
    server.start()
    with pytest.raises(HostRefused) as refused:
        connect(target, timeouts=QUICK)
    assert refused.value.code == "host_key_changed"
    assert before in str(refused.value)
    assert server.host_key_fingerprint in str(refused.value)
    assert "Accepted" not in server.log.read_text()


def test_pinned_kind_is_asked_for_first(make_sshd: MakeSshd, target_of: MakeTarget) -> None:  # case G02
    server = make_sshd(key_types=("rsa", "ed25519", "ecdsa"))
    with connect(target_of(server), timeouts=QUICK) as shell:
        assert shell.server_host_key == server.host_key
        assert shell.server_host_key.key_type == "ssh-rsa"


def test_other_kind_alone_is_a_changed_key(make_sshd: MakeSshd, target_of: MakeTarget, sshd: Sshd) -> None:  # case G02
    server = make_sshd(key_types=("rsa",))
    with pytest.raises(HostRefused, match=r"ssh-rsa.*ssh-ed25519") as refused:
        connect(target_of(server, pins=(sshd.host_key,)), timeouts=QUICK)
    assert refused.value.code == "host_key_changed"


def test_frozen_host_is_down(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd()
    server.freeze()
    with pytest.raises(HostDown):
        connect(target_of(server), timeouts=replace(QUICK, banner=1))


# --- contact lost in mid command


def when_told(act: Callable[[], None]) -> Callable[[str, str], None]:
    """Act on the first line of the command."""
    return lambda *_: act()


def test_frozen_host_is_noticed_in_mid_command(make_sshd: MakeSshd, target_of: MakeTarget) -> None:  # case G05
    server = make_sshd()
    with connect(target_of(server), timeouts=QUICK) as shell:
        started = time.monotonic()
        with pytest.raises(LostContact, match="unknown"):
            shell.script("echo on; sleep 60", on_line=when_told(server.freeze))
    assert time.monotonic() - started < QUICK.probe * (QUICK.probes + 2) + 5


def test_frozen_host_is_noticed_while_much_is_sent(make_sshd: MakeSshd, target_of: MakeTarget) -> None:  # case G05
    server = make_sshd()
    data = b"x" * 64 * 1024 * 1024
    with connect(target_of(server), timeouts=QUICK) as shell, pytest.raises(LostContact):
        shell.script("echo on; cat >/dev/null; sleep 60", stdin=data, on_line=when_told(server.freeze))


def test_quiet_command_on_a_living_host_is_not_lost(shell: Shell) -> None:
    pause = QUICK.probe * (QUICK.probes + 2)
    assert shell.script(f"sleep {pause}; echo done").stdout == "done\n"


def test_host_killed_in_mid_command(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd()
    with connect(target_of(server), timeouts=QUICK) as shell, pytest.raises(LostContact):
        shell.script("echo on; sleep 60", on_line=when_told(server.kill))


def test_cut_connection_leaves_the_command_alone(make_sshd: MakeSshd, target_of: MakeTarget, tmp_path: Path) -> None:
    """Case G07: the loss says nothing about the command, which here goes on to its good end."""
    server, proof = make_sshd(), tmp_path / "proof"
    with connect(target_of(server), timeouts=QUICK) as shell, pytest.raises(LostContact):
        shell.script(f"trap '' PIPE; echo on; sleep 1; echo end >{proof}", on_line=when_told(server.cut))
    deadline = time.monotonic() + 10
    while not proof.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert proof.exists()


def test_command_on_a_closed_connection_is_lost(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd()
    with connect(target_of(server), timeouts=QUICK) as shell:
        server.kill()
        with pytest.raises(LostContact):
            shell.run(["true"])


def test_session_killed_on_the_host_leaves_no_status(shell: Shell) -> None:
    result = shell.script("echo before; kill -9 $(ps -o ppid= -p $$)")
    assert (result.exit_status, result.stdout) == (None, "before\n")


# --- stopping a command


class Stopper:
    """Collects process ids from the lines of a command and raises Cancel once the first has come."""

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.pids: list[int] = []
        self._act = act

    def on_line(self, _: str, text: str) -> None:
        self.pids += [int(word) for word in text.split()]

    def check(self) -> None:
        if self.pids:
            self._act()
            raise Cancel


COMMANDS = {
    "plain": "echo $$; sleep 60; true",
    "children": "sleep 60 & a=$!; sleep 61 & echo $$ $a $!; wait",
    "deaf to TERM": "trap '' TERM; echo $$; while :; do sleep 1; done",
    "own session": "setsid -f sh -c 'exec sleep 62' </dev/null & setsid sleep 63 & echo $$ $!; wait; sleep 60",
    "stopped": "sleep 60 & kill -STOP $!; echo $$ $!; wait",
    "blocked on output": "echo $$; exec 3>&1; yes",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_cancel_ends_every_process(sshd: Sshd, target_of: MakeTarget, command: str) -> None:
    stopper = Stopper()
    with connect(target_of(sshd), timeouts=QUICK, check=stopper.check) as shell, pytest.raises(Cancel):
        shell.script(command, on_line=lambda stream, text: stopper.on_line(stream, text) if text != "y" else None)
    assert stopper.pids
    assert all(gone(pid) for pid in stopper.pids)


def test_cancel_under_sudo(sshd: Sshd, target_of: MakeTarget) -> None:
    stopper = Stopper()
    with connect(target_of(sshd), timeouts=QUICK, check=stopper.check) as shell, pytest.raises(Cancel):
        shell.run(["sh", "-c", "echo $$; exec sleep 60"], sudo=True, on_line=stopper.on_line)
    assert all(gone(pid) for pid in stopper.pids)


def test_cancel_leaves_other_commands_alone(sshd: Sshd, target_of: MakeTarget, shell: Shell) -> None:
    other = int(shell.script("sleep 60 >/dev/null 2>&1 & echo $!").stdout)
    stopper = Stopper()
    with connect(target_of(sshd), timeouts=QUICK, check=stopper.check) as own, pytest.raises(Cancel):
        own.script("echo $$; sleep 60", on_line=stopper.on_line)
    assert not gone(other)
    shell.run(["kill", str(other)])


def test_check_is_called_at_least_twice_a_second(sshd: Sshd, target_of: MakeTarget) -> None:
    times: list[float] = []
    with connect(target_of(sshd), check=lambda: times.append(time.monotonic())) as shell:
        shell.run(["sleep", "2"])
    assert max(b - a for a, b in pairwise(times)) < 0.6


def test_connection_lives_on_after_a_cancel(sshd: Sshd, target_of: MakeTarget) -> None:
    stopper = Stopper()
    with connect(target_of(sshd), timeouts=QUICK, check=stopper.check) as shell:
        with pytest.raises(Cancel):
            shell.script("echo $$; sleep 60", on_line=stopper.on_line)
        stopper.pids.clear()
        assert shell.run(["echo", "still"]).stdout == "still\n"


def test_error_of_a_line_reader_ends_the_command(shell: Shell) -> None:
    pids: list[int] = []

    def fail(_: str, text: str) -> None:
        pids.append(int(text))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shell.script("echo $$; sleep 60", on_line=fail)
    assert gone(pids[0])


def test_cancel_over_a_new_connection_when_the_first_is_cut(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd()
    stopper = Stopper(server.cut)
    with connect(target_of(server), timeouts=QUICK, check=stopper.check) as shell, pytest.raises(Cancel):
        shell.script("trap '' PIPE HUP; echo $$; sleep 60", on_line=stopper.on_line)
    assert gone(stopper.pids[0])


def test_cancel_where_a_connection_holds_one_session_only(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    stopper = Stopper()
    target = target_of(make_sshd(extra=("MaxSessions 1",)))
    with connect(target, timeouts=QUICK, check=stopper.check) as shell, pytest.raises(Cancel):
        shell.script("echo $$; sleep 60", on_line=stopper.on_line)
    assert gone(stopper.pids[0])


def test_cancel_that_cannot_be_confirmed_says_so(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd()
    stopper = Stopper(server.freeze)
    started = time.monotonic()
    refusal = pytest.raises(StopUnconfirmed, match=r"own .*could not be asked")
    with connect(target_of(server), timeouts=HASTY, check=stopper.check) as shell, refusal as unconfirmed:
        shell.script("echo $$; sleep 60", on_line=stopper.on_line)
    assert isinstance(unconfirmed.value.__cause__, Cancel)
    assert time.monotonic() - started < 20


def test_time_out_ends_the_processes_too(shell: Shell) -> None:
    pids: list[int] = []
    with pytest.raises(CommandTimeout):
        shell.script("sleep 60 & echo $!; wait", timeout=1, on_line=lambda _, text: pids.append(int(text)))
    assert gone(pids[0])


# --- probing


def test_ports_are_probed_all_at_once(sshd: Sshd) -> None:
    with silent() as quiet, closing(full_listener()) as full:
        here = "127.0.0.1"
        endpoints = [(here, sshd.port), (here, free_port()), (here, quiet), ("localhost", sshd.port)]
        endpoints += [("no-such-host.invalid", 22), *[("127.0.0.1", full.getsockname()[1])] * 300]
        started = time.monotonic()
        assert tcp_open(endpoints, timeout=1)[:5] == [True, False, True, True, False]
    assert time.monotonic() - started < 4


def test_port_that_drops_packets_is_closed() -> None:
    with closing(full_listener()) as full, closing(socket.socket()) as one, closing(socket.socket()) as two:
        for filler in (one, two):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        assert tcp_open([full.getsockname()], timeout=0.5) == [False]


def test_nothing_to_probe() -> None:
    assert tcp_open([]) == []


def full_listener() -> socket.socket:
    """A listener without room: once its queue is full, the kernel drops further attempts without an answer."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    return listener
