"""A lab leaves nothing, neither when it ends in order nor when its owner is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import network
from tests.lab.base import cache, locked
from tests.lab.engine import RUN, Engine
from tests.lab.lab import Lab, is_owned, numbers, sweep, unavailable
from tests.lab.network import Network
from tests.lab.wheels import CLONE

OWNER = """
import sys
from tests.lab.lab import Lab
lab = Lab()
lab.start()
lab.make_host("left")
print(lab.network.number, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _can_be_had() -> None:
    if reason := unavailable():
        pytest.skip(reason)


def traces(number: int) -> list[str]:
    """Everything on this machine that belongs to a lab of this number."""
    net, engine = Network(number), Engine(Network(number))
    found = [f"process {pid}" for pid in {*engine.held(), *engine.strays()}]
    found += [str(group) for group in engine.groups()]
    found += [str(folder) for folder in (RUN / str(number), cache() / "labs" / str(number)) if folder.exists()]
    mounts = Path("/proc/self/mountinfo").read_text()
    found += [where for where in (str(engine.run), str(engine.data), f"/run/netns/{net.namespace}") if where in mounts]
    for command in (["ip", "link"], ["ip", "route"], ["iptables", "-S"], ["iptables", "-t", "nat", "-S"]):
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found += [line for line in said.splitlines() if net.veth in line or f" {net.namespace} " in line]
    return found


def test_a_lab_that_ends_takes_everything_along() -> None:
    lab = Lab()
    lab.start()
    number = lab.network.number
    try:
        lab.make_host("short", wait=False)
        assert traces(number)
        assert is_owned(number)
    finally:
        lab.stop()
    assert traces(number) == []


def test_what_a_killed_owner_left_is_swept() -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, cwd=CLONE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        number = int(owner.stdout.readline())
        with locked("labs"):  # a lab that starts meanwhile sweeps too
            assert number not in sweep()
            os.kill(owner.pid, signal.SIGKILL)
            owner.wait()
            assert number in sweep()
    assert traces(number) == []
    assert number not in numbers()


def test_no_two_labs_share_a_number_or_a_network() -> None:
    with locked("labs"):  # networks without an owner would be swept by a lab that starts meanwhile
        first, second = network.choose(), network.choose()
        try:
            assert first.number != second.number
            assert {first.subnet, first.machine}.isdisjoint({second.subnet, second.machine})
        finally:
            network.release(first)
            network.release(second)
