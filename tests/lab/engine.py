"""A Docker engine of our own: its own containerd, dockerd, folders, sockets, cgroup and network namespace."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from piherder.house import processes
from tests.lab.base import LabError, cache, call, unmount_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lab.network import Network

RUN = Path("/run/piherder-lab")  # sockets: a path of theirs may have 107 bytes
START_SECONDS = 60
# Kubernetes' part of containerd is of no use here and would listen on a port.
CONTAINERD = 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'


class Engine:
    """The engine of one lab. `keep` leaves it running when the process that started it ends."""

    def __init__(self, network: Network, keep: bool = False) -> None:
        self.network, self.keep = network, keep
        self.run = RUN / str(network.number)
        self.data = cache() / "labs" / str(network.number)
        self.socket = self.run / "docker.sock"
        self._programs: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start containerd, then dockerd, and wait until it answers. Raises LabError with the end of the log."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.run / "containerd.toml").write_text(CONTAINERD)
        (self.run / "dockerd.json").write_text("{}")  # else it reads the machine's /etc/docker/daemon.json
        self._spawn("containerd", self._containerd())
        self._spawn("dockerd", self._dockerd())
        if not processes.wait_until(self._up_or_over, START_SECONDS) or not self.answers():
            raise LabError(f"dockerd did not start: {processes.tail(self.run / 'dockerd.log', 5)}")
        self.network.let_in()

    def _containerd(self) -> list[str]:
        where = ["--root", str(self.data / "containerd"), "--state", str(self.run / "containerd")]
        config = ["--config", str(self.run / "containerd.toml"), "--address", str(self.run / "containerd.sock")]
        return self.network.inside("containerd", *config, *where)

    def _dockerd(self) -> list[str]:
        return self.network.inside(
            *("dockerd", "--data-root", str(self.data / "docker"), "--exec-root", str(self.run / "exec")),
            *("-H", f"unix://{self.socket}", "--pidfile", str(self.run / "dockerd.pid"), "--bridge", "none"),
            *("--containerd", str(self.run / "containerd.sock"), "--exec-opt", "native.cgroupdriver=cgroupfs"),
            *("--cgroup-parent", f"/{self.network.namespace}", "--config-file", str(self.run / "dockerd.json")),
        )

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        log = self.run / f"{name}.log"
        if not self.keep:
            self._programs.append(processes.spawn(command, log, os.environ, self.run))
            return
        with log.open("ab") as handle:
            started = subprocess.Popen(command, stdout=handle, stderr=handle, cwd=self.run, start_new_session=True)
        self._programs.append(started)
        (self.run / f"{name}.kept").write_text(str(started.pid))

    def answers(self) -> bool:
        """True when the engine answers a call."""
        with contextlib.suppress(LabError):
            return bool(self.docker("version", "--format", "{{.Server.Version}}", seconds=5))
        return False

    def _up_or_over(self) -> bool:
        return any(p.poll() is not None for p in self._programs) or self.answers()

    def docker(self, *arguments: str, seconds: float = 60) -> str:
        """Output of one `docker` command on this engine. Raises LabError in words."""
        return call(*self.command(*arguments), seconds=seconds)

    def command(self, *arguments: str) -> list[str]:
        """A `docker` command for this engine."""
        return ["docker", "-H", f"unix://{self.socket}", *arguments]

    def stop(self) -> None:
        """Remove every container, end both programs, and leave no process, mount, cgroup or folder."""
        if self.answers():
            ids = self.docker("ps", "-aq").split()
            with contextlib.suppress(LabError):
                self.docker("rm", "-f", "-v", *ids) if ids else None
        for program in reversed(self._programs):
            processes.end(program, grace=15)
        for pid in [*self.strays(), *self.held()]:
            kill(pid)
        processes.wait_until(lambda: not self.held(), 10)
        unmount_below(self.run)
        unmount_below(self.data)
        for group in sorted(self.groups(), key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):
                group.rmdir()
        for folder in (self.run, self.data):
            shutil.rmtree(folder, ignore_errors=True)

    def groups(self) -> Iterator[Path]:
        """Cgroups of this lab, in every hierarchy (v1 has one per controller, at most three levels deep)."""
        for top in Path("/sys/fs/cgroup").glob(f"**/{self.network.namespace}"):
            yield top
            yield from (path for path in top.glob("**/") if path != top)

    def held(self) -> set[int]:
        """Processes in this lab's cgroups: those of its containers."""
        found: set[int] = set()
        for group in self.groups():
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
        return found - {0}

    def strays(self) -> set[int]:
        """Programs of this lab that outlived the one who started them, known by our folders in their command lines."""
        marks = (f"{self.run}/".encode(), f"{self.data}/".encode())
        found = set()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = entry.read_bytes()
                name = Path(words.split(b"\0")[0].decode(errors="replace")).name
                if name.startswith(("containerd", "dockerd", "docker-proxy")) and any(m in words for m in marks):
                    found.add(int(entry.parent.name))
        return found - {os.getpid()}


def kill(pid: int) -> None:
    """SIGKILL to one process; silent when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
