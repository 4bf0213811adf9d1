"""Keys in memory, pins in a file, nothing left."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts.rsync.agent import Hop, JobAgent, KeyRefused, held_keys, known_hosts, ssh_config
from hosts.rsync.command import Remote
from piherder.demo.sshd import Sshd
from tests.hosts.rsync.conftest import programs_naming, wait_until

if TYPE_CHECKING:
    from tests.hosts.rsync.conftest import Site

CLONE = Path(__file__).resolve().parents[3]
HOP = Hop("node-a", "192.0.2.7", "pi", ["ssh-ed25519 AAAA comment"], Path("/run/j/key0.pub"), 2222)
JUMP = Hop("gate", "fe80::1%eth0", "jump", ["ssh-ed25519 BBBB", "ssh-rsa CCCC"], Path("/run/j/key1.pub"))
CONFIG, PINS = Path("/run/j/ssh_config"), Path("/run/j/known_hosts")


def options(text: str, host: str) -> set[str]:
    """The lines of one Host block."""
    for block in text.split("Host "):
        name, *lines = block.splitlines() or [""]
        if name == host:
            return {line.strip() for line in lines}
    return set()


def test_the_way_to_a_host() -> None:
    assert options(ssh_config(CONFIG, PINS, HOP), "node-a") == {
        "HostName 192.0.2.7",
        "Port 2222",
        "User pi",
        "HostKeyAlias node-a",
        "UserKnownHostsFile /run/j/known_hosts",
        "IdentityFile /run/j/key0.pub",
        "ProxyCommand none",
    }


def test_the_way_over_a_jump_host() -> None:
    text = ssh_config(CONFIG, PINS, HOP, JUMP)
    assert "ProxyCommand setpriv --pdeathsig TERM ssh -F /run/j/ssh_config -W [%h]:%p gate" in options(text, "node-a")
    assert {"HostName fe80::1%%eth0", "IdentityFile /run/j/key1.pub", "HostKeyAlias gate"} <= options(text, "gate")


@pytest.mark.parametrize(
    "line",
    ["IdentitiesOnly yes", "StrictHostKeyChecking yes", "BatchMode yes", "ForwardAgent no", "ControlMaster no"],
)
def test_for_every_hop(line: str) -> None:
    assert line in options(ssh_config(CONFIG, PINS, HOP, JUMP), "*")


def test_openssh_accepts_the_config(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(ssh_config(CONFIG, PINS, HOP, JUMP))
    argv = ["ssh", "-G", "-F", str(tmp_path / "config"), "node-a"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    assert {"stricthostkeychecking true", "port 2222", "hostkeyalias node-a", "forwardagent no"} <= set(said)


def test_pins_are_under_the_alias() -> None:
    assert known_hosts([HOP, JUMP]) == "node-a ssh-ed25519 AAAA\ngate ssh-ed25519 BBBB\ngate ssh-rsa CCCC\n"


@pytest.mark.parametrize(
    "hop",
    [
        Hop("a b", "192.0.2.7", "pi", [], Path("/k")),
        Hop("a", "192.0.2.7\nProxyCommand id", "pi", [], Path("/k")),
        Hop("a", "-oProxyCommand=id", "pi", [], Path("/k")),
        Hop("a", "192.0.2.7", "pi\nUser root", [], Path("/k")),
        Hop("a", "192.0.2.7", "-l", [], Path("/k")),
        Hop("a", "192.0.2.7", "pi", [], Path("/a b")),
    ],
)
def test_values_that_could_be_more_than_themselves_are_refused(hop: Hop) -> None:
    with pytest.raises(ValueError, match=r"not a valid|must be made of"):
        ssh_config(CONFIG, PINS, hop)


def test_no_private_key_is_ever_in_a_file(site: Site, key: Path) -> None:
    secret = key.read_text().splitlines()[2]
    written = [path for path in site.agent.folder.iterdir() if path.is_file()]
    assert len(written) == 3
    assert not any(secret in path.read_text() for path in written)
    assert not any(secret in line for line in programs_naming(site.agent.folder))


def test_only_the_owner_reaches_the_agent(site: Site) -> None:
    assert stat.S_IMODE(site.agent.folder.stat().st_mode) == 0o700


def test_nothing_is_left_of_an_agent(tmp_path: Path, key: Path) -> None:
    folder = tmp_path / "a"
    with JobAgent(key.read_text(), folder) as agent:
        agent.write_config(HOP)
        assert len(programs_naming(folder)) == 1
    assert programs_naming(folder) == []
    assert not folder.exists()


def test_an_agent_dies_with_its_parent(tmp_path: Path, key: Path) -> None:
    script = """
import sys
from pathlib import Path
from hosts.rsync.agent import JobAgent
with JobAgent(Path(sys.argv[2]).read_text(), Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""
    argv = [sys.executable, "-c", script, str(tmp_path / "a"), str(key)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CLONE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.send_signal(signal.SIGKILL)
    assert wait_until(lambda: programs_naming(tmp_path / "a") == [], 5)


@pytest.mark.parametrize("text", ["", "no key", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(KeyRefused, match="cannot be read"), JobAgent(text, tmp_path / "a"):
        pass
    assert not (tmp_path / "a").exists()


def test_a_key_with_a_passphrase_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", file], check=True)
    with pytest.raises(KeyRefused, match="protected by a passphrase"), JobAgent(file.read_text(), tmp_path / "a"):
        pass


def test_a_key_pasted_from_windows_works(tmp_path: Path, key: Path) -> None:
    pasted = key.read_text().strip().replace("\n", "\r\n")
    with JobAgent(pasted, tmp_path / "a") as agent:
        assert agent.public_keys[0].read_text().split()[1] == key.with_suffix(".pub").read_text().split()[1]


def test_the_keys_that_an_agent_holds_are_asked_for(site: Site, tmp_path: Path) -> None:
    for kind in ("ecdsa", "rsa"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / kind], check=True)
        site.agent.add((tmp_path / kind).read_text())
    listed = subprocess.run(["ssh-add", "-L"], env=dict(site.agent.env), capture_output=True, text=True, check=True)
    assert held_keys(site.agent.socket) == [" ".join(line.split()[:2]) for line in listed.stdout.splitlines()]
    assert [file.read_text().split()[0] for file in site.agent.public_keys[1:]] == ["ecdsa-sha2-nistp256", "ssh-rsa"]


@pytest.mark.parametrize("answer", [b"", b"\x00\x00", b"\x00\x00\x00\x01\x05"])
def test_an_agent_that_tells_no_keys_is_an_error(tmp_path: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()

        def answer_once() -> None:
            link, _ = server.accept()
            with link:
                link.recv(5)
                link.sendall(answer)

        thread = threading.Thread(target=answer_once)
        thread.start()
        with pytest.raises(OSError, match="does not tell which keys"):
            held_keys(tmp_path / "s")
        thread.join()


def test_a_path_that_is_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shorter path"), JobAgent("", tmp_path / ("x" * 100)):
        pass


def test_a_copy_over_a_jump_host_with_a_key_of_its_own(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "jump"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    with Sshd(site.base / "gate", "gate") as gate:
        gate.add_key(file.with_suffix(".pub").read_text())
        jump_key = site.agent.add(file.read_text())
        far = Hop("far", "127.0.0.1", "root", [site.sshd.host_public_key], site.agent.public_keys[0], site.sshd.port)
        near = Hop("gate", "127.0.0.1", "root", [gate.host_public_key], jump_key, gate.port)
        site.remote = Remote("far", site.agent.write_config(far, near), lock=site.remote.lock)
        (site.data / "a").write_text("a")
        site.good(site.backup())
        assert "Accepted publickey" in gate.log.read_text()
    assert os.listdir(site.store / "1") == ["a"]
