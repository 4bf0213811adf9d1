"""Real sshd hosts on loopback for the tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hosts.host_keys import generate_key
from hosts.ssh import Shell, Target, Timeouts, connect
from piherder.demo.sshd import Sshd, SshdOptions

# Short, so that a host which does not answer costs seconds; long enough for a busy machine.
QUICK = Timeouts(connect=2, banner=2, auth=3, channel=3, probe=0.4, probes=3, stop=1, confirm=20)

MakeSshd = Callable[..., Sshd]
MakeTarget = Callable[..., Target]


@pytest.fixture(scope="session")
def login_key() -> tuple[str, str]:
    return generate_key("tests")


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory, login_key: tuple[str, str]) -> Iterator[Sshd]:
    """A host that no test harms."""
    with Sshd(tmp_path_factory.mktemp("sshd"), "calm") as server:
        server.add_key(login_key[1])
        yield server


@pytest.fixture
def make_sshd(tmp_path: Path, login_key: tuple[str, str]) -> Iterator[MakeSshd]:
    """Start hosts of one's own: ``make_sshd(name, **options)``."""
    started: list[Sshd] = []

    def make(name: str = "own", **options: object) -> Sshd:
        server = Sshd(tmp_path / name, name, options=SshdOptions(**options))  # type: ignore[arg-type]  # passed on as they are
        started.append(server)
        server.add_key(login_key[1])
        return server.start()

    yield make
    for server in started:
        server.stop()


@pytest.fixture
def target_of(login_key: tuple[str, str]) -> MakeTarget:
    """The Target of an Sshd, with changes: ``target_of(sshd, user="x")``."""

    def make(server: Sshd, **changes: object) -> Target:
        fields: dict[str, object] = {
            "name": server.name, "address": "127.0.0.1", "port": server.port, "user": server.user,
            "pins": (server.host_key,), "private_key": login_key[0],
        }  # fmt: skip
        return Target(**(fields | changes))  # type: ignore[arg-type]  # passed on as they are

    return make


@pytest.fixture
def shell(sshd: Sshd, target_of: MakeTarget) -> Iterator[Shell]:
    """A connection to the calm host."""
    with connect(target_of(sshd), timeouts=QUICK) as opened:
        yield opened
