"""The way to a host: addresses, kinds of host key, jump hosts that fail in each their own way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from hosts.host_keys import generate_key, scan
from hosts.ssh import HostDown, HostRefused, LostContact, connect, tcp_open
from piherder.demo.sshd import Sshd, SshdOptions, free_port
from tests.hosts.conftest import QUICK, MakeSshd, MakeTarget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = {"ed25519": "ssh-ed25519", "ecdsa": "ecdsa-sha2-nistp256", "rsa": "ssh-rsa"}


@pytest.fixture
def six(tmp_path: Path, login_key: tuple[str, str]) -> Iterator[Sshd]:
    """A host that listens on the loopback address of version six too."""
    port = free_port()
    options = SshdOptions(extra=(f"ListenAddress [::1]:{port}",))
    with Sshd(tmp_path / "six", "six", port, options) as server:
        server.add_key(login_key[1])
        yield server


# --- addresses ---------------------------------------------------------------------------------------------------


def test_a_host_may_have_an_address_of_version_six(six: Sshd, target_of: MakeTarget) -> None:
    with connect(target_of(six, address="::1"), timeouts=QUICK) as shell:
        assert shell.run(["echo", "six"]).stdout == "six\n"


def test_a_port_of_version_six_is_probed(six: Sshd) -> None:
    assert tcp_open([("::1", six.port), ("127.0.0.1", six.port), ("::1", free_port())]) == [True, True, False]


def test_a_key_is_scanned_at_an_address_of_version_six(six: Sshd) -> None:
    assert six.host_key in scan("::1", six.port, 4)


def test_a_host_behind_a_jump_host_may_have_an_address_of_version_six(
    six: Sshd, make_sshd: MakeSshd, target_of: MakeTarget
) -> None:
    target = target_of(six, address="::1", jump=target_of(make_sshd("jump")))
    with connect(target, timeouts=QUICK) as shell:
        assert shell.run(["echo", "six"]).stdout == "six\n"


def test_a_host_may_be_named(sshd: Sshd, target_of: MakeTarget) -> None:
    with connect(target_of(sshd, address="localhost"), timeouts=QUICK) as shell:
        assert shell.alive


@pytest.mark.parametrize("address", ["no such host", "", "..", "a" * 300, "host.invalid", "[::1]", "-oProxyCommand=x"])
def test_an_address_that_is_none_is_a_host_that_is_down(sshd: Sshd, target_of: MakeTarget, address: str) -> None:
    with pytest.raises(HostDown, match="calm"):
        connect(target_of(sshd, address=address, port=free_port()), timeouts=QUICK)


def test_a_probe_of_odd_addresses_answers_no(sshd: Sshd) -> None:
    odd = [("no such host", 22), ("", 1), ("a" * 300, 22), ("host.invalid", 22), ("127.0.0.1", sshd.port)]
    assert tcp_open(odd) == [False, False, False, False, True]


def test_the_same_endpoint_asked_twice_is_answered_twice(sshd: Sshd) -> None:
    here, nobody = ("127.0.0.1", sshd.port), ("127.0.0.1", free_port())
    assert tcp_open([here, nobody, here]) == [True, False, True]


# --- kinds of keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "key_type"), KINDS.items())
def test_a_host_may_show_any_kind_of_key(
    make_sshd: MakeSshd, target_of: MakeTarget, kind: str, key_type: str
) -> None:  # case G02
    with connect(target_of(make_sshd(key_types=(kind,))), timeouts=QUICK) as shell:
        assert shell.server_host_key.key_type == key_type


@pytest.mark.parametrize("kind", KINDS)
def test_a_host_reinstalled_with_another_key_of_its_kind_is_refused(
    make_sshd: MakeSshd, target_of: MakeTarget, kind: str
) -> None:  # case B03
    server = make_sshd(key_types=(kind,))
    target = target_of(server)
    server.stop()
    server.make_host_keys(anew=True)
    server.start()
    with pytest.raises(HostRefused, match="pin the new key") as refused:
        connect(target, timeouts=QUICK)
    assert refused.value.code == "host_key_changed"


def test_any_of_several_pins_will_do(make_sshd: MakeSshd, target_of: MakeTarget, sshd: Sshd) -> None:
    server = make_sshd()
    with connect(target_of(server, pins=(sshd.host_key, server.host_key)), timeouts=QUICK) as shell:
        assert shell.server_host_key == server.host_key


def test_the_login_is_not_tried_at_a_host_with_another_key(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server, other = make_sshd("one"), make_sshd("two")
    with pytest.raises(HostRefused):
        connect(target_of(server, pins=(other.host_key,), login_password="Pa55"), timeouts=QUICK)
    assert "Failed" not in server.log.read_text()
    assert "Accepted" not in server.log.read_text()


# --- jump hosts --------------------------------------------------------------------------------------------------


def test_a_jump_host_that_is_down_is_named(sshd: Sshd, target_of: MakeTarget) -> None:
    jump = target_of(sshd, name="gate", port=free_port())
    with pytest.raises(HostDown, match="gate"):
        connect(target_of(sshd, jump=jump), timeouts=QUICK)


def test_a_jump_host_that_refuses_the_key_is_named(make_sshd: MakeSshd, sshd: Sshd, target_of: MakeTarget) -> None:
    stranger = generate_key("stranger")[0]
    jump = target_of(make_sshd("gate"), private_key=stranger)
    with pytest.raises(HostRefused, match="gate") as refused:
        connect(target_of(sshd, jump=jump), timeouts=QUICK)
    assert refused.value.code == "auth_failed"


def test_a_jump_host_reinstalled_is_named(make_sshd: MakeSshd, sshd: Sshd, target_of: MakeTarget) -> None:  # case B03
    gate = make_sshd("gate")
    jump = target_of(gate)
    gate.stop()
    gate.make_host_keys(anew=True)
    gate.start()
    with pytest.raises(HostRefused, match="gate") as refused:
        connect(target_of(sshd, jump=jump), timeouts=QUICK)
    assert refused.value.code == "host_key_changed"


def test_a_host_that_is_down_behind_a_jump_host_is_a_host_that_is_down(
    make_sshd: MakeSshd, sshd: Sshd, target_of: MakeTarget
) -> None:
    gate = make_sshd("gate")
    with pytest.raises(HostDown, match=r"jump host gate cannot reach 127\.0\.0\.1"):
        connect(target_of(sshd, port=free_port(), jump=target_of(gate)), timeouts=QUICK)
    assert _ends(gate)


def _ends(gate: Sshd) -> bool:
    """Whether the connection to the jump host goes away again."""
    until = time.monotonic() + 5
    while gate.connections() and time.monotonic() < until:
        time.sleep(0.05)
    return not gate.connections()


def test_a_refusal_behind_a_jump_host_leaves_no_connection(
    make_sshd: MakeSshd, sshd: Sshd, target_of: MakeTarget
) -> None:
    gate = make_sshd("gate")
    with pytest.raises(HostRefused):
        connect(target_of(sshd, pins=(gate.host_key,), jump=target_of(gate)), timeouts=QUICK)
    assert _ends(gate)


def test_closing_closes_the_jump_host_too(make_sshd: MakeSshd, sshd: Sshd, target_of: MakeTarget) -> None:
    gate = make_sshd("gate")
    with connect(target_of(sshd, jump=target_of(gate)), timeouts=QUICK) as shell:
        assert gate.connections()
    assert not shell.alive
    assert _ends(gate)


def test_two_jump_hosts_in_a_row(make_sshd: MakeSshd, sshd: Sshd, target_of: MakeTarget) -> None:
    outer = target_of(make_sshd("outer"))
    inner = target_of(make_sshd("inner"), jump=outer)
    with connect(target_of(sshd, jump=inner), timeouts=QUICK) as shell:
        assert shell.run(["echo", "through"]).stdout == "through\n"


def test_a_jump_host_that_dies_loses_the_command_behind_it(
    make_sshd: MakeSshd, sshd: Sshd, target_of: MakeTarget
) -> None:
    gate = make_sshd("gate")
    with (
        connect(target_of(sshd, jump=target_of(gate)), timeouts=QUICK) as shell,
        pytest.raises(LostContact, match="calm"),
    ):
        shell.script("echo on; sleep 30", on_line=lambda *_: gate.kill())


# --- words for people --------------------------------------------------------------------------------------------


def test_the_where_of_a_host_names_it_twice(sshd: Sshd, target_of: MakeTarget) -> None:
    assert target_of(sshd, address="192.0.2.7", port=2222).where == "calm (192.0.2.7 port 2222)"


def test_a_key_pinned_among_several_is_told_with_all_of_them(make_sshd: MakeSshd, target_of: MakeTarget) -> None:
    server = make_sshd(key_types=("ed25519",))
    one, two = make_sshd("a").host_key, make_sshd("b", key_types=("ecdsa",)).host_key
    with pytest.raises(HostRefused, match="screen") as refused:
        connect(target_of(server, pins=(one, two)), timeouts=QUICK)
    assert f"{one.fingerprint} (ssh-ed25519) or {two.fingerprint} (ecdsa-sha2-nistp256)" in str(refused.value)
