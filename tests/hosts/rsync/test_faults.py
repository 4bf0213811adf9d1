"""Bad days: what each looks like, and that nothing is left running."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hosts.rsync import command
from hosts.rsync.command import Remote, environment
from hosts.rsync.outcome import Case, Kind, judge
from hosts.rsync.process import Child, Line, Stream
from hosts.rsync.run import login_noise
from piherder.demo.sshd import SshdOptions
from tests.hosts.rsync.conftest import AS_NOBODY, needs_root, no_check, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosts.rsync.command import Backup
    from tests.hosts.rsync.conftest import Site, SiteMaker

CLONE = Path(__file__).resolve().parents[3]
LOGIN_AS_NOBODY = SshdOptions(force_command=f'exec {" ".join(AS_NOBODY)} sh -c "$SSH_ORIGINAL_COMMAND"')


class Stopped(Exception):
    """What the runner raises for cancel, a lost claim and a limit alike."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY | (0 if path.is_dir() else os.O_CREAT))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def slow(site: Site, generation: str = "1", size: int = 3_000_000) -> Backup:
    (site.data / "large").write_bytes(os.urandom(size))
    return site.backup(generation, bandwidth_kib=300)


@dataclass(frozen=True, slots=True)
class Silent(Remote):
    """A host that says nothing for three seconds."""

    def rsync_path(self) -> str:
        return f"sleep 3; {super(Silent, self).rsync_path()}"


@pytest.mark.parametrize(("by_content", "code"), [(False, 30), (True, 0)])
def test_a_silent_host_is_given_up_unless_it_compares_by_content(
    site: Site, monkeypatch: pytest.MonkeyPatch, by_content: bool, code: int
) -> None:
    monkeypatch.setattr(command, "NETWORK_TIMEOUT", 1)
    remote = Silent(site.remote.alias, site.remote.ssh_config, lock=site.remote.lock)
    assert site.run(replace(site.backup(), remote=remote, by_content=by_content)).exit_code == code


def programs(*names: str, into: Path) -> str:
    """Return a folder that holds these programs alone, as a PATH."""
    into.mkdir()
    for name in names:
        (into / name).symlink_to(str(shutil.which(name)))
    return str(into)


def test_the_herders_lock_is_taken(site: Site) -> None:  # case C18
    with locked(site.store / ".lock"):
        verdict = site.verdict(site.backup())
    assert (verdict.kind, verdict.busy, verdict.sentence) == (
        Kind.BUSY_HERE,
        True,
        "Another copy of node-a is running on this server.",
    )


def test_the_hosts_lock_is_taken(site: Site) -> None:  # case C18
    with locked(Path(site.remote.lock)):
        verdict = site.verdict(site.backup())
    assert (verdict.kind, verdict.busy, verdict.sentence) == (
        Kind.BUSY_THERE,
        True,
        "Another copy is running on node-a.",
    )


def test_an_old_lock_file_without_a_holder_is_no_lock(site: Site) -> None:  # case C19
    (site.store / ".lock").write_text("pid 7")
    site.good(site.backup())


def test_the_hosts_lock_is_held_while_a_copy_runs_and_free_afterwards(site: Site) -> None:
    seen: list[int] = []

    def look() -> None:
        if site.progress and not seen:
            seen.append(subprocess.run(site.remote.idle_command().split(), check=False).returncode)

    site.run(slow(site, size=600_000), look)
    assert seen == [75]
    assert subprocess.run(site.remote.idle_command().split(), check=False).returncode == 0


@pytest.mark.parametrize("lock", [".lock", ".lock-{}"], ids=["one herder", "two herders"])
def test_of_several_at_once_one_runs(site: Site, lock: str) -> None:  # case C18
    copy = slow(site, size=600_000)
    copies = [replace(copy, destination=site.store / f"{n}", lock_file=site.store / lock.format(n)) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        codes = [done.exit_code for done in pool.map(site.run, copies)]
    assert sorted(code == 0 for code in codes) == [False, False, False, True]
    assert len(list(site.store.glob("*/large"))) == 1


def test_a_stopped_copy_leaves_nothing_running_and_keeps_its_partial(site: Site) -> None:
    def stop() -> None:
        if site.progress and site.progress[-1].bytes > 100_000:
            raise Stopped

    with pytest.raises(Stopped):
        site.run(slow(site), stop)
    assert site.local_programs() == []
    assert wait_until(site.remote_is_quiet)
    assert 0 < (site.store / "1/large").stat().st_size < 3_000_000


def test_the_run_after_a_stopped_one_is_whole(site: Site) -> None:
    test_a_stopped_copy_leaves_nothing_running_and_keeps_its_partial(site)
    assert wait_until(site.remote_is_quiet)
    done = site.good(site.backup())
    assert (site.store / "1/large").read_bytes() == (site.data / "large").read_bytes()
    assert done.stats.matched_bytes > 0


def test_check_is_called_twice_a_second_when_nothing_is_said(site: Site) -> None:
    calls: list[float] = []
    Child(("sleep", "1.5"), env=environment()).run(lambda stream, line: None, lambda: calls.append(time.monotonic()))
    assert max(later - earlier for earlier, later in itertools.pairwise(calls)) <= 0.5


def test_a_frozen_host_ends_by_check(site: Site) -> None:  # case C07
    frozen: list[float] = []

    def freeze_then_stop() -> None:
        if site.progress and not frozen:
            site.sshd.freeze()
            frozen.append(time.monotonic())
        elif frozen and time.monotonic() > frozen[0] + 1:
            raise Stopped

    with pytest.raises(Stopped):
        site.run(slow(site), freeze_then_stop)
    assert site.local_programs() == []
    site.sshd.thaw()
    assert wait_until(site.remote_is_quiet)


def test_a_cut_connection_is_lost(site: Site) -> None:  # case C07
    def cut() -> None:
        if site.progress:
            site.sshd.cut()

    done = site.run(slow(site), cut)
    verdict = judge(Case(done.exit_code, done.messages, host="node-a"))
    assert (verdict.kind, verdict.good) == (Kind.LOST, False)
    assert site.local_programs() == []


PARENT = """
import sys
from pathlib import Path
from hosts.rsync.agent import Hop, JobAgent
from hosts.rsync.command import Backup, Options, Remote
from hosts.rsync.run import run_copy
base, key, user, pin, port = Path(sys.argv[1]), *sys.argv[2:6]
with JobAgent(Path(key).read_text(), base / "killed") as agent:
    config = agent.write_config(Hop("node-a", "127.0.0.1", user, [pin], agent.public_keys[0], int(port)))
    remote = Remote("node-a", config, lock=str(base / "data"))
    copy = Backup(remote, bytes(base / "data"), base / "store/1", base / "store/.lock", Options(bandwidth_kib=300))
    run_copy(copy, agent.env, check=lambda: None, on_progress=lambda progress: print("moving", flush=True))
"""


@contextmanager
def parent_in_mid_copy(site: Site, key: Path) -> Iterator[subprocess.Popen[bytes]]:
    slow(site)
    words = (site.base, key, site.sshd.user, site.sshd.host_public_key, site.sshd.port)
    argv = [sys.executable, "-c", PARENT, *map(str, words)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=CLONE) as parent:
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"moving\n"
            yield parent
        finally:
            parent.kill()


def test_a_killed_parent_takes_everything_along_even_when_the_host_is_frozen(site: Site, key: Path) -> None:
    """Nothing is said and nothing closes here: only the parent-death signals are left."""
    with parent_in_mid_copy(site, key) as parent:
        site.sshd.freeze()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert wait_until(lambda: site.local_programs() == [], 5), site.local_programs()
        site.sshd.thaw()
        assert wait_until(site.remote_is_quiet, 5)


def test_nothing_outlives_a_parent_that_is_killed(site: Site, key: Path) -> None:
    with parent_in_mid_copy(site, key) as parent:
        assert len(site.local_programs()) >= 3
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert wait_until(lambda: site.local_programs() == [], 5), site.local_programs()
        assert wait_until(site.remote_is_quiet, 5)
    with locked(site.store / ".lock"), locked(Path(site.remote.lock)):
        assert site.remote_is_quiet()


def test_the_run_after_a_killed_one_is_whole(site: Site, key: Path) -> None:
    with parent_in_mid_copy(site, key) as parent:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert wait_until(lambda: site.local_programs() == [] and site.remote_is_quiet())
    site.good(site.backup())
    assert os.listdir(site.store / "1") == ["large"]
    assert (site.store / "1/large").read_bytes() == (site.data / "large").read_bytes()


def test_rsync_is_missing_on_the_host(odd_site: SiteMaker, tmp_path: Path) -> None:  # case C03
    site = odd_site(SshdOptions(path=programs("sh", "flock", into=tmp_path / "bin")))
    verdict = site.verdict(site.backup())
    assert verdict.kind is Kind.NO_RSYNC
    assert verdict.sentence == "rsync is missing on node-a; install the package rsync there."


def test_flock_is_missing_on_the_host(odd_site: SiteMaker, tmp_path: Path) -> None:
    site = odd_site(SshdOptions(path=programs("sh", "rsync", into=tmp_path / "bin")))
    verdict = site.verdict(site.backup())
    assert verdict.kind is Kind.NO_FLOCK
    assert verdict.sentence.startswith("flock is missing on node-a")


def test_login_scripts_that_print(odd_site: SiteMaker) -> None:  # case C04
    site = odd_site(SshdOptions(noise="Welcome to node-a\n"))
    noise = login_noise(site.remote, site.agent.env, no_check)
    verdict = site.verdict(site.backup(), noise)
    assert verdict.kind is Kind.NOISY
    assert "“Welcome to node-a”" in verdict.sentence


def test_a_clean_login_has_no_noise(site: Site) -> None:
    assert login_noise(site.remote, site.agent.env, no_check) == ""


@needs_root
def test_what_the_login_may_not_read_is_listed(odd_site: SiteMaker) -> None:
    site = odd_site(LOGIN_AS_NOBODY)
    (site.data / "open").write_text("")
    (site.data / "secret").write_text("")
    (site.data / "secret").chmod(0o600)
    (site.data / "closed").mkdir(mode=0o700)
    verdict = site.verdict(site.backup())
    assert verdict.kind is Kind.UNREADABLE
    assert set(verdict.paths) == {bytes(site.data / "secret"), bytes(site.data / "closed")}
    assert (site.store / "1/open").exists()


@needs_root
def test_sudo_that_wants_a_password(odd_site: SiteMaker) -> None:  # case C05
    site = odd_site(LOGIN_AS_NOBODY)
    site.remote = replace(site.remote, sudo=True)
    verdict = site.verdict(site.backup())
    assert (verdict.kind, "pi ALL=(root) NOPASSWD: /usr/bin/rsync" in verdict.sentence) == (Kind.SUDO, True)


@needs_root
def test_sudo_that_works(site: Site) -> None:
    (site.data / "a").write_text("a")
    site.remote = replace(site.remote, sudo=True)
    site.good(site.backup())


@pytest.mark.parametrize("shell", ["dash", "bash", "fish"])
def test_any_login_shell(odd_site: SiteMaker, shell: str) -> None:
    site = odd_site(SshdOptions(force_command=f'exec {shell} -c "$SSH_ORIGINAL_COMMAND"'))
    (site.data / "a").write_text("a")
    site.good(site.backup())
    with locked(site.data):
        assert site.verdict(site.backup("2")).kind is Kind.BUSY_THERE


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "piherder-test", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@needs_root
def test_destination_is_full(site: Site) -> None:  # case C09
    (site.data / "large").write_bytes(os.urandom(1_000_000))
    with small_disk(site.store / "1"):
        verdict = site.verdict(site.backup())
    assert verdict.kind is Kind.FULL
    assert verdict.sentence.startswith("There is no space left at the destination")


def test_a_host_that_is_off(site: Site) -> None:
    site.sshd.stop()
    assert site.verdict(site.backup()).kind is Kind.UNREACHABLE


def test_a_key_that_is_refused(site: Site) -> None:
    (site.sshd.folder / "authorized_keys").write_text("")
    assert site.verdict(site.backup()).kind is Kind.LOGIN_REFUSED


def test_a_changed_host_key(site: Site) -> None:
    site.sshd.make_host_keys(anew=True)
    site.sshd.restart()
    assert site.verdict(site.backup()).kind is Kind.HOST_KEY


def test_a_flood_of_output_is_drained_and_bounded() -> None:
    seen: list[int] = []

    def note(stream: Stream, line: Line) -> None:
        seen.append(len(line.raw))

    script = "head -c 1000000 /dev/zero | tr '\\0' x; echo; yes | head -200000; yes e | head -200000 >&2"
    assert Child(("sh", "-c", script), env=environment()).run(note, no_check) == 0
    assert (len(seen), max(seen)) == (400_001, 65_536)
