"""One lab host: Debian with systemd as process 1, its own sshd, a fixed address, and a real reboot."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from piherder.house import ports
from tests.lab.base import LabError, comes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.engine import Engine

BOOT_SECONDS = 120
UP = ("running", "degraded")


@dataclass(frozen=True, slots=True)
class Completed:
    """What a script on a host said, and its exit code."""

    stdout: str
    stderr: str
    code: int


@dataclass(frozen=True, slots=True)
class LabHost:
    """A running host; `name` is its container and its host name."""

    engine: Engine
    name: str
    address: str

    def run(self, script: str, check: bool = True, seconds: float = 120, user: str = "root") -> Completed:
        """Run a bash script there. Raises LabError when it fails (unless `check=False`) or takes too long."""
        return self._exec(("-u", user), ("bash", "-c", script), b"", check, seconds)

    def _exec(
        self, options: Sequence[str], command: Sequence[str], given: bytes | BinaryIO, check: bool, seconds: float
    ) -> Completed:
        whole = self.engine.command("exec", *options, self.name, *command)
        source: dict[str, Any] = {"input": given} if isinstance(given, bytes) else {"stdin": given}
        try:
            done = subprocess.run(whole, capture_output=True, timeout=seconds, **source)
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"").decode(errors="replace")[-2000:]
            raise LabError(f"{self.name}: {command[-1][:200]} did not end within {seconds:.0f} s: {said}") from None
        found = Completed(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), done.returncode)
        if check and found.code:
            said = (found.stdout[-2000:] + found.stderr[-2000:]).strip()
            raise LabError(f"{self.name}: {command[-1][:200]} ended with {found.code}: {said}")
        return found

    def copy_in(self, local: Path, remote: str, exclude: Sequence[str] = ()) -> None:
        """Put a file or a folder's content at `remote`, owned by root. `exclude` takes tar's patterns."""
        if local.is_dir():
            script = f"mkdir -p {shlex.quote(remote)} && tar -x --no-same-owner -C {shlex.quote(remote)}"
            pack = ["tar", "-C", str(local), *(f"--exclude={pattern}" for pattern in exclude), "-c", "."]
            given = subprocess.run(pack, capture_output=True, check=True, timeout=300).stdout
        else:
            mode = f"{local.stat().st_mode & 0o7777:o}"
            where = shlex.quote(remote)
            script = f'mkdir -p "$(dirname {where})" && cat > {where} && chmod {mode} {where}'
            given = local.read_bytes()
        self._exec(("-i",), ("bash", "-c", script), given, True, 300)

    def feed(self, local: Path, script: str, seconds: float = 300) -> Completed:
        """Run a bash script with a file of this machine on its standard input. Raises LabError as `run` does."""
        with local.open("rb") as handle:
            return self._exec(("-i",), ("bash", "-c", script), handle, True, seconds)

    def take_out(self, script: str, local: Path, seconds: float = 300) -> None:
        """Keep what a script there prints in a file of this machine. Raises LabError."""
        command = self.engine.command("exec", self.name, "bash", "-c", script)
        with local.open("wb") as goal:
            done = subprocess.run(command, stdout=goal, stderr=subprocess.PIPE, timeout=seconds)
        if done.returncode:
            raise LabError(f"{self.name}: {script[:200]} ended with {done.returncode}: {done.stderr[-2000:]!r}")

    def add_key(self, public: str, user: str = "root") -> None:
        """Let the owner of this public key log in as `user`."""
        home = f"~{user}"
        line = shlex.quote(public.strip())
        self.run(
            f"install -d -m 700 -o {user} {home}/.ssh && echo {line} >> {home}/.ssh/authorized_keys"
            f" && chown {user} {home}/.ssh/authorized_keys && chmod 600 {home}/.ssh/authorized_keys"
        )

    def boot_id(self) -> str:
        """The id of this boot; "" while the host is down."""
        with contextlib.suppress(LabError):
            return self.run("cat /proc/sys/kernel/random/boot_id", seconds=20).stdout.strip()
        return ""

    def reboot(self, seconds: float = BOOT_SECONDS) -> None:
        """Reboot as a person would, and wait until another boot is up. Raises LabError."""
        before = self.boot_id()
        self.run("systemctl reboot", check=False, seconds=30)
        if not comes(lambda: self.boot_id() not in ("", before), seconds):
            raise LabError(f"{self.name} did not come back within {seconds:.0f} s")
        self.wait_up(seconds)

    def wait_up(self, seconds: float = BOOT_SECONDS) -> None:
        """Wait until systemd has started everything and sshd answers. Raises LabError with what systemd says."""
        if not comes(self.is_up, seconds):
            raise LabError(f"{self.name} did not come up within {seconds:.0f} s: {self._why()}")

    def is_up(self) -> bool:
        """True when systemd is done with the boot and sshd listens."""
        with contextlib.suppress(LabError):
            state = self.run("systemctl is-system-running", check=False, seconds=20).stdout.strip()
            return state in UP and ports.answers(self.address, 22)
        return False

    def _why(self) -> str:
        try:
            return self.run("systemctl list-jobs; systemctl --failed --no-legend", check=False, seconds=20).stdout
        except LabError:
            return self.engine.docker("logs", "--tail", "5", self.name)

    def start_engine(self) -> None:
        """Start the host's own Docker, now and at each boot.

        Its containers cannot use the lab's resolver, which answers on a loopback address: they get this machine's.
        """
        servers = re.findall(r"^nameserver\s+(\S+)", Path("/etc/resolv.conf").read_text(), re.MULTILINE)
        settings = {"dns": [server for server in servers if not ipaddress.ip_address(server).is_loopback]}
        self.run(f"mkdir -p /etc/docker && echo {shlex.quote(json.dumps(settings))} > /etc/docker/daemon.json")
        self.run("systemctl enable --now --quiet containerd.service docker.service && docker version")

    def remove(self) -> None:
        """Remove the host with all it holds."""
        self.engine.docker("rm", "-f", "-v", self.name)
        self.engine.docker("volume", "rm", "-f", f"{self.name}-docker")
