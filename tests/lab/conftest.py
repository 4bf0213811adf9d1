"""The lab for a whole run of tests: one engine, and hosts that each test names for itself."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import pytest

from tests import conftest as wall
from tests.lab import network
from tests.lab.installed import House, leave
from tests.lab.lab import Lab, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab.engine import Engine
    from tests.lab.host import LabHost


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """An engine with the base image; everything of it is gone afterwards."""
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    found = Lab()
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="session")
def engine(lab: Lab) -> Engine:
    """The lab's engine."""
    return lab.engine


@pytest.fixture(scope="session")
def make_host(lab: Lab) -> Callable[..., LabHost]:
    """`make_host(name, docker=False)`: a new host, up; it lives until the run ends or `remove()`."""
    return lab.make_host


@pytest.fixture(scope="module")
def house(make_host: Callable[..., LabHost]) -> Iterator[House]:
    """An embedded installation that has this host in its herd; every test leaves it well."""
    host = make_host("house")
    found = House(host)
    found.bring()
    found.said = found.make("install", "--yes").stdout
    found.add_itself()
    found.herder("run_job", "backup", "--host", "self", "--wait")
    found.herder("run_job", "herder_backup", "--wait")
    yield found
    leave(host)


@pytest.fixture(autouse=True)
def _hosts_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab's hosts are on this machine too: the wall lets their addresses through."""
    before = wall._is_here

    def is_here(family: int, address: Any) -> bool:
        if before(family, address):
            return True
        try:
            return any(ipaddress.ip_address(address[0]) in net for net in (network.HOSTS, network.LINKS))
        except (ValueError, TypeError):
            return False

    monkeypatch.setattr(wall, "_is_here", is_here)
