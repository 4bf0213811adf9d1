"""A host on loopback, an agent and a store: everything a copy needs, for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts.rsync.agent import Hop, JobAgent
from hosts.rsync.command import Backup, Options, Remote, Restore
from hosts.rsync.outcome import Case, Verdict, judge
from hosts.rsync.run import Copy, Finished, run_copy
from piherder.demo.sshd import Sshd, SshdOptions

if TYPE_CHECKING:
    from hosts.rsync.output import FileLine, Progress

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes owners, mounts or logs in as another user")
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")


@pytest.fixture(autouse=True)
def _ordinary_umask() -> Iterator[None]:
    """Hosts have ordinary folders, and some of these tests log in as nobody."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def wait_until(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it becomes true in time."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def programs_naming(word: Path) -> list[str]:
    """Command lines of running programs that name this path."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes()
        except OSError:
            continue
        if bytes(word) in line:
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def no_check() -> None:
    return None


@dataclass
class Site:
    """`data` is what the host has, `store` where generations go."""

    base: Path
    sshd: Sshd
    agent: JobAgent
    remote: Remote
    lines: list[str] = field(default_factory=list)
    files: list[FileLine] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def store(self) -> Path:
        return self.base / "store"

    def backup(self, generation: str = "1", *, link_dest: str = "", **options: int) -> Backup:
        return Backup(
            remote=self.remote,
            source=bytes(self.data),
            destination=self.store / generation,
            lock_file=self.store / ".lock",
            link_dest=self.store / link_dest if link_dest else None,
            options=Options(**options),  # type: ignore[arg-type]  # bool is an int
        )

    def restore(self, *names: bytes, to: str = "restored", **options: bool) -> Restore:
        return Restore(
            remote=self.remote,
            generation=self.store / "1",
            destination=bytes(self.base / to),
            lock_file=self.store / ".lock",
            options=Options(**options),
            names=names or None,
        )

    def run(self, copy: Copy, check: Callable[[], None] = no_check) -> Finished:
        return run_copy(
            copy,
            self.agent.env,
            check=check,
            on_file=self.files.append,
            on_line=self.lines.append,
            on_progress=self.progress.append,
        )

    def verdict(self, copy: Copy, noise: str = "") -> Verdict:
        done = self.run(copy)
        return judge(Case(done.exit_code, done.messages, host="node-a", user="pi", noise=noise, others=done.others))

    def good(self, copy: Copy) -> Finished:
        done = self.run(copy)
        assert done.exit_code == 0, self.lines
        return done

    def remote_is_quiet(self) -> bool:
        """Whether the host runs nothing but its sshd."""
        return len(self.sshd.processes()) == 1

    def local_programs(self) -> list[str]:
        """What runs here for a copy of this site, the agent of the test aside."""
        own = [line for line in programs_naming(self.agent.folder) if "ssh-agent" not in line]
        return own + programs_naming(self.store) + programs_naming(self.base / "killed")


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file], check=True)
    return file


@contextmanager
def make_site(key: Path, options: SshdOptions | None = None) -> Iterator[Site]:
    """A short path: sockets allow 107 bytes, and the host's user has to reach it."""
    base = Path(tempfile.mkdtemp(prefix="ph-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, base)
        for folder in ("data", "store"):
            (base / folder).mkdir()
        base.chmod(0o755)
        sshd = stack.enter_context(Sshd(base / "sshd", "node-a", options=options))
        sshd.add_key(key.with_suffix(".pub").read_text())
        agent = stack.enter_context(JobAgent(key.read_text(), base / "run"))
        hop = Hop("node-a", "127.0.0.1", sshd.user, [sshd.host_public_key], agent.public_keys[0], sshd.port)
        # The lock is a folder of this host alone, so that tests run beside each other.
        yield Site(base, sshd, agent, Remote("node-a", agent.write_config(hop), lock=str(base / "data")))


@pytest.fixture
def site(key: Path) -> Iterator[Site]:
    with make_site(key) as made:
        yield made


SiteMaker = Callable[[SshdOptions], Site]


@pytest.fixture
def odd_site(key: Path) -> Iterator[SiteMaker]:
    """A host with something wrong."""
    with ExitStack() as stack:
        yield lambda options: stack.enter_context(make_site(key, options))
