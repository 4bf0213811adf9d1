"""Who listens where."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from piherder.house import ports
from piherder.house.folder import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000 100 0 0 10 0
   1: 0100007F:1F41 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000 20 4 30 10 -1
   2: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000 100 0 0 10 0
"""


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_reads_listening_sockets_only() -> None:
    assert ports.listeners(TABLE) == {8000: {4711, 4713}}


def test_an_empty_table_has_no_listeners() -> None:
    assert ports.listeners("") == {}


def test_a_taken_port_names_its_holder(taken: int) -> None:
    comm = Path("/proc/self/comm").read_text().strip()
    with pytest.raises(Refused) as refusal:
        ports.check_free("127.0.0.1", taken)
    assert f"Port {taken} on 127.0.0.1 is taken by {comm} (process {os.getpid()})" in str(refusal.value)
    assert f"--port {taken + 1}" in str(refusal.value)


def test_the_highest_port_is_not_followed_by_an_impossible_one() -> None:
    assert "--port 8000" in ports.taken_reason("127.0.0.1", 65535)


def test_a_free_port_is_accepted() -> None:
    ports.check_free("127.0.0.1", ports.free_port())


def test_a_port_that_nobody_holds_is_another_programs() -> None:
    assert ports.holder(ports.free_port()) == "another program"


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Refused, match="no address 192\\.0\\.2\\.1"):
        ports.check_free("192.0.2.1", 8000)


def test_listening_ports_come_and_go(taken: int) -> None:
    assert taken in ports.listening_ports()
    assert ports.answers("127.0.0.1", taken)
    assert not ports.answers("127.0.0.1", ports.free_port())


def test_a_taken_ipv6_port_names_its_holder() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        with pytest.raises(Refused, match=f"Port {port} on ::1 is taken by .* \\(process {os.getpid()}\\)"):
            ports.check_free("::1", port)


def test_each_reason_says_what_to_do() -> None:
    refused = ports.refusal(OSError(errno.EACCES, ""), "127.0.0.1", 80)
    assert refused == 'Port 80 may be opened by root only; choose one above 1023 with ARGS="--port 8000".'
    nowhere = ports.refusal(OSError(errno.EADDRNOTAVAIL, ""), "192.0.2.1", 80)
    assert nowhere.endswith('choose one of its own with ARGS="--bind ADDRESS".')
