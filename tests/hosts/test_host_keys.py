"""Host keys and login keys, checked against what OpenSSH itself says."""

import socket
import subprocess
from pathlib import Path

import pytest

from hosts.host_keys import (
    BadKey,
    HostKey,
    algorithms_for,
    generate_key,
    parse_public_line,
    public_from_private,
    scan,
)
from hosts.ssh import HostDown, HostRefused, connect
from piherder.demo.sshd import Sshd, free_port
from tests.hosts.conftest import MakeSshd, MakeTarget

KINDS = [("ed25519", "ssh-ed25519"), ("ecdsa", "ecdsa-sha2-nistp256"), ("rsa", "ssh-rsa")]


def keygen(*words: str | Path) -> str:
    return subprocess.run(["ssh-keygen", *words], check=True, capture_output=True, text=True).stdout


def make_pair(folder: Path, kind: str, *more: str, passphrase: str = "") -> tuple[str, str]:
    file = folder / f"id_{kind}"
    keygen("-q", "-t", kind, "-N", passphrase, "-C", "", "-f", file, *more)
    return file.read_text(), file.with_suffix(".pub").read_text().strip()


@pytest.mark.parametrize(("kind", "key_type"), KINDS)
def test_fingerprint_is_that_of_openssh(tmp_path: Path, kind: str, key_type: str) -> None:
    _, public = make_pair(tmp_path, kind)
    key = parse_public_line(public)
    assert key.key_type == key_type
    assert key.fingerprint == keygen("-l", "-f", tmp_path / f"id_{kind}.pub").split()[1]


@pytest.mark.parametrize(
    "line", ["", "ssh-ed25519", "ssh-ed25519 not-base64!", "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIA==", "ssh-ed25519 AAAA"]
)
def test_bad_public_line_is_refused_in_words(line: str) -> None:
    with pytest.raises(BadKey, match="public key"):
        parse_public_line(line)


def test_comment_is_no_part_of_a_key(login_key: tuple[str, str]) -> None:
    assert parse_public_line(login_key[1] + " and more") == parse_public_line(login_key[1])


def test_scan_finds_every_kind(make_sshd: MakeSshd) -> None:  # case G02
    server = make_sshd(key_types=("rsa", "ecdsa", "ed25519"))
    found = scan("127.0.0.1", server.port, 5)
    assert [key.key_type for key in found] == ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"]
    assert server.host_key in found


def test_scan_of_one_kind(sshd: Sshd) -> None:
    assert scan("127.0.0.1", sshd.port, 5) == (sshd.host_key,)


def test_scan_through_a_jump_host(sshd: Sshd, make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    with connect(target_of(make_sshd("jump"))) as jump:
        assert scan("127.0.0.1", sshd.port, 5, via=jump.open_tcp) == (sshd.host_key,)


def test_scan_of_a_closed_port() -> None:
    with pytest.raises(HostDown, match="cannot be reached"):
        scan("127.0.0.1", free_port(), 2)


def test_scan_of_a_silent_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(HostDown, match="no answer in time"):
        scan("127.0.0.1", listener.getsockname()[1], 0.5)


def test_scan_of_a_host_with_unknown_kinds_only(make_sshd: MakeSshd) -> None:
    server = make_sshd(key_types=("rsa",), extra=("HostKeyAlgorithms ssh-rsa",))
    with pytest.raises(HostRefused) as refused:
        scan("127.0.0.1", server.port, 5)
    assert refused.value.code == "incompatible"


def test_pinned_kinds_come_first_and_once() -> None:
    asked = algorithms_for(["ssh-rsa", "ssh-dss"])
    assert asked[:3] == ("rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519")
    assert len(set(asked)) == len(asked) == 6


def test_generated_key_is_one_for_openssh(tmp_path: Path) -> None:
    private, public = generate_key("herder for pi1")
    (tmp_path / "id").write_text(private)
    (tmp_path / "id").chmod(0o600)
    assert keygen("-y", "-f", tmp_path / "id").split()[:2] == public.split()[:2]
    assert public.endswith(" herder for pi1")
    assert generate_key("x")[0] != private


@pytest.mark.parametrize("form", ["RFC4716", "PEM"])
@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_public_part_of_each_kind(tmp_path: Path, kind: str, form: str) -> None:
    private, public = make_pair(tmp_path, kind, "-m", form)
    assert public_from_private(private).split() == public.split()[:2]


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_login_with_each_kind_of_key(sshd: Sshd, target_of: MakeTarget, tmp_path: Path, kind: str) -> None:
    private, public = make_pair(tmp_path, kind)
    sshd.add_key(public)
    with connect(target_of(sshd, private_key=private.replace("\n", "\r\n"))) as shell:
        assert shell.run(["echo", "in"]).stdout == "in\n"


def test_login_with_many_ecdsa_keys(sshd: Sshd, target_of: MakeTarget, tmp_path: Path) -> None:
    """Their length varies, and with it the padding of the file."""
    for n in range(20):
        (tmp_path / str(n)).mkdir()
        private, public = make_pair(tmp_path / str(n), "ecdsa", "-b", ["256", "384", "521"][n % 3])
        sshd.add_key(public)
        connect(target_of(sshd, private_key=private)).close()


@pytest.mark.parametrize(("kind", "form"), [("ed25519", "RFC4716"), ("rsa", "RFC4716"), ("rsa", "PEM")])
def test_encrypted_key_is_named_so(tmp_path: Path, kind: str, form: str) -> None:
    private, public = make_pair(tmp_path, kind, "-m", form, passphrase="open sesame")
    with pytest.raises(BadKey, match="protected by a passphrase"):
        public_from_private(private)
    with pytest.raises(BadKey, match="wrong passphrase"):
        public_from_private(private, "wrong")
    assert public_from_private(private, "open sesame").split() == public.split()[:2]


def test_damaged_private_key(login_key: tuple[str, str]) -> None:
    lines = login_key[0].splitlines()
    for text in ("", "hello", login_key[1], "\n".join([*lines[:2], *lines[3:]]), login_key[0][:150]):
        with pytest.raises(BadKey, match="cannot be read"):
            public_from_private(text)


def test_error_holds_nothing_of_the_key(login_key: tuple[str, str]) -> None:
    with pytest.raises(BadKey) as bad:
        public_from_private(login_key[0].replace("END", "DNE"))
    assert login_key[0].splitlines()[1] not in repr(bad.value)


def test_host_key_line() -> None:
    assert HostKey("ssh-ed25519", "AAAA").line == "ssh-ed25519 AAAA"
