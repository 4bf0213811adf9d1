"""The throw-away sshd and its levers."""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hosts.host_keys import generate_key
from piherder.demo.sshd import Sshd, SshdError, SshdOptions, free_port

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    private, public = generate_key("demo")
    with Sshd(tmp_path / "host", "demo") as started:
        started.add_key(public)
        (tmp_path / "id").write_text(private)
        (tmp_path / "id").chmod(0o600)
        yield started


def ssh(server: Sshd, *words: str) -> "subprocess.Popen[str]":
    known = server.folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{server.port} {server.host_public_key}\n")
    options = ["-F", "none", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={known}"]
    argv = ["ssh", *options, "-i", str(server.folder.parent / "id"), "-p", str(server.port), f"{server.user}@127.0.0.1"]
    return subprocess.Popen([*argv, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def said(server: Sshd, *words: str) -> str:
    with ssh(server, *words) as client:
        return client.communicate(timeout=20)[0]


def greeting(port: int, timeout: float = 5) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout) as link:
        link.settimeout(timeout)
        return link.recv(4)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True


@contextmanager
def sleeper(server: Sshd) -> "Iterator[subprocess.Popen[str]]":
    """A client whose command runs on the host, with one child detached from the session."""
    with ssh(server, "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo on; sleep 601") as client:
        assert client.stdout
        assert client.stdout.readline() == "on\n"
        try:
            yield client
        finally:
            client.kill()


def test_openssh_logs_in(server: Sshd) -> None:
    assert said(server, "echo in") == "in\n"


def test_fingerprint_is_that_of_the_key(server: Sshd) -> None:
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", server.folder / "host_ed25519.pub"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split()[1] == server.host_key_fingerprint


def test_listens_on_loopback_only(server: Sshd) -> None:
    sockets = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    listening = [words[1] for words in sockets if words[3] == "0A" and words[1].endswith(f":{server.port:04X}")]
    assert listening == [f"0100007F:{server.port:04X}"]


def test_stop_leaves_no_process(server: Sshd) -> None:
    with sleeper(server) as client:
        before = server.processes()
        assert len(before) >= 4
        server.stop()
        server.stop()
        assert all(gone(pid) for pid in before)
        client.communicate(timeout=10)


def test_kill_leaves_no_process(server: Sshd) -> None:
    with sleeper(server) as client:
        before = server.processes()
        server.kill()
        assert all(gone(pid) for pid in before)
        client.communicate(timeout=10)


def test_cut_ends_connections_and_nothing_else(server: Sshd) -> None:
    with sleeper(server) as client:
        connections = server.connections()
        others = set(server.processes()) - set(connections)
        server.cut()
        client.communicate(timeout=10)
        assert client.returncode == 255
        assert not any(gone(pid) for pid in others)
        assert greeting(server.port) == b"SSH-"


def test_restart_keeps_port_and_key(server: Sshd) -> None:
    before = server.port, server.host_key
    server.restart()
    assert (server.port, server.host_key) == before
    assert said(server, "echo again") == "again\n"


def test_frozen_host_accepts_and_is_silent(server: Sshd) -> None:
    server.freeze()
    with pytest.raises(TimeoutError):
        greeting(server.port, 0.3)
    server.thaw()
    assert said(server, "echo thawed") == "thawed\n"


def test_stop_of_a_frozen_host(server: Sshd) -> None:
    server.freeze()
    before = server.processes()
    server.stop()
    assert all(gone(pid) for pid in before)


def test_new_host_keys(server: Sshd) -> None:
    before = server.host_key_fingerprint
    server.stop()
    server.make_host_keys(anew=True)
    server.start()
    assert server.host_key_fingerprint != before
    assert said(server, "echo new") == "new\n"


def test_noise_and_path(server: Sshd) -> None:
    server.options = SshdOptions(noise="Hello!\n", path="/nowhere:/bin")
    server.restart()
    assert said(server, 'echo "$PATH"') == "Hello!\n/nowhere:/bin\n"


def test_reason_of_a_failed_start_is_told(tmp_path: Path) -> None:
    second = Sshd(tmp_path / "second", "second", options=SshdOptions(extra=("NoSuchKeyword yes",)))
    with pytest.raises(SshdError, match="NoSuchKeyword"):
        second.start()


def test_ends_with_its_parent(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from piherder.demo.sshd import Sshd;"
        "s = Sshd(pathlib.Path(sys.argv[1]), 'orphan', int(sys.argv[2])).start(); print(*s.processes(), flush=True);"
        "time.sleep(60)"
    )
    port = free_port()
    environ = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    argv = [sys.executable, "-c", program, str(tmp_path / "orphan"), str(port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ) as parent:
        assert parent.stdout
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
    wait_for_end(pids)
    with pytest.raises(ConnectionRefusedError):
        greeting(port)


def wait_for_end(pids: list[int]) -> None:
    """A pidfd becomes readable when its process ends."""
    assert pids
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([handle], [], [], 10)[0]
        os.close(handle)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_ordinary_user() -> None:
    program = (
        "import pathlib, sys; from piherder.demo.sshd import Sshd;"
        "s = Sshd(pathlib.Path(sys.argv[1]), 'user').start(); print(s.user); s.stop()"
    )
    drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    environ = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        argv = [*drop, sys.executable, "-c", program, f"{folder}/user"]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout == "nobody\n", done.stderr
