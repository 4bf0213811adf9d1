"""The lab as a whole: why it cannot be had, its start, its hosts, its end, and what a killed one left."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, TextIO

from tests.lab import base, network
from tests.lab.engine import RUN, Engine
from tests.lab.host import LabHost
from tests.lab.network import Network
from tests.lab.recipe import HOST, run_host

if TYPE_CHECKING:
    from pathlib import Path

NEEDED = ("dockerd", "containerd", "docker", "ip", "iptables", "nsenter", "setpriv")
BRIDGE = "hosts"


def unavailable() -> str:
    """Why no lab can be had here, in one sentence; "" when it can."""
    if os.geteuid() != 0:
        return "The lab needs root: it makes network namespaces and starts an engine."
    lacking = [name for name in NEEDED if not shutil.which(name)]
    if not (shutil.which("debootstrap") or any(base.cache().glob(f"{HOST.name}-*-{HOST.digest()}.tar"))):
        lacking.append("debootstrap")
    if lacking:
        # Debian 13 has the client in a package of its own, which Debian 12 does not know.
        client = (
            "apt-get install docker-cli" if lacking == ["docker"] else "python3 piherder/house/prepare.py --for lab"
        )
        return f"The lab lacks {', '.join(lacking)}: {client} brings it."
    if subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True).returncode:
        return "The lab makes namespaces, which this machine forbids: use one that is no container, or a freer one."
    return ""


class Lab:
    """One engine and its hosts. `keep` makes them outlive this process, for a developer's own hands."""

    def __init__(self, keep: bool = False) -> None:
        self.keep = keep
        self.hosts: dict[str, LabHost] = {}
        self._lock: TextIO | None = None

    def start(self) -> None:
        """Everything up to an engine that knows the base image. Raises LabError; nothing is left then."""
        image = base.tar()
        with base.locked("labs"):
            sweep()
            self.network = network.choose()
            self.engine = Engine(self.network, self.keep)
            self._claim(self.engine.run)
        try:
            self.engine.start()
            self.engine.docker("import", str(image), HOST.image, seconds=300)
            bridge = ("--subnet", self.network.subnet, "--opt", "com.docker.network.bridge.name=hosts0")
            self.engine.docker("network", "create", *bridge, BRIDGE)
        except BaseException:
            self.stop()
            raise

    def _claim(self, run: Path) -> None:
        """Others see by this lock that the lab's owner lives; the kernel drops it with the process."""
        run.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.keep:
            (run / "kept").touch()
        self._lock = (run / "owner.lock").open("a")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def make_host(self, name: str, docker: bool = False, wait: bool = True) -> LabHost:
        """A new host under a name that is free, up unless `wait=False`; `docker=True` starts its own engine too."""
        address = self.network.address(len(self.hosts))
        self.engine.docker(*run_host(name, BRIDGE, address))
        host = self.hosts[name] = LabHost(self.engine, name, address)
        if wait or docker:
            host.wait_up()
        if docker:
            host.start_engine()
        return host

    def stop(self) -> None:
        """Leave nothing of this lab on the machine."""
        self.engine.stop()
        network.release(self.network)
        if self._lock:
            self._lock.close()


def numbers() -> set[int]:
    """Labs of which anything is here: a namespace, a folder of sockets or one of data."""
    folders = [path for top in (RUN, base.cache() / "labs") if top.is_dir() for path in top.iterdir()]
    return network.taken() | {int(path.name) for path in folders if path.name.isdigit()}


def is_owned(number: int) -> bool:
    """True while the lab's owner lives, or when it is one that was started to stay."""
    run = RUN / str(number)
    if (run / "kept").exists():
        return True
    if not (run / "owner.lock").exists():
        return False
    with (run / "owner.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def sweep(kept: bool = False) -> list[int]:
    """Remove labs whose owner was killed, or with `kept` those that were started to stay; returns their numbers."""
    gone = []
    for number in sorted(numbers()):
        is_kept = (RUN / str(number) / "kept").exists()
        if is_kept if kept else not is_owned(number):
            remove(number)
            gone.append(number)
    return gone


def remove(number: int) -> None:
    """Remove one lab by its number, whoever started it."""
    Engine(Network(number)).stop()
    network.release(Network(number))
