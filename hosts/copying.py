"""What a job needs to run rsync with a host: an agent with the host's keys, a config with its pins, the right to read.

Also what must be true afterwards: that nothing of a stopped copy runs on the host any more.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from hosts.access import log_in, target_of
from hosts.rsync.agent import AGENT_SOCKET, Hop, JobAgent, KeyRefused
from hosts.rsync.command import BUSY_EXIT, Remote
from hosts.rsync.outcome import Case, Kind, Verdict, judge
from hosts.rsync.process import log_text
from hosts.rsync.run import Copy, Finished, login_noise, run_copy
from hosts.ssh_errors import SshError
from hosts.store.lock import FolderBusy, host_folder
from jobs.models import Failure
from jobs.registry import JobFailed, NotYet, Run, StopWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hosts.models import Host
    from hosts.rsync.output import FileLine, Progress
    from hosts.ssh_target import Target

CONFIRM = 60.0  # seconds that a host may take to say that nothing of a stopped copy is left on it
YOUNG = 120.0  # seconds
LONGEST_BASE = 60  # characters of the runtime folder, so that the agent's socket fits into 107
RIGHTS = """
uid=$(id -u)
echo "$uid"
command -v rsync >/dev/null || exit 3
{idle}
test $? -ne {busy} || exit {busy}
rsync=rsync
test "$uid" != 0 && sudo -n rsync --version >/dev/null 2>&1 && rsync="sudo -n rsync" && echo sudo
echo {end}
{look}
true
"""
END_OF_RIGHTS = "--"
REACHED = """
for path in "$@"; do
    {rsync} -d --list-only -- "$path" >/dev/null 2>&1 || break
    echo there
done
"""
CODES = {
    Kind.FULL: Failure.NO_SPACE,
    Kind.LOST: Failure.LOST_CONTACT,
    Kind.UNREACHABLE: Failure.LOST_CONTACT,
    Kind.HOST_KEY: Failure.HOST_KEY_CHANGED,
    Kind.LOGIN_REFUSED: Failure.AUTH_FAILED,
    Kind.SUDO: Failure.REFUSED,
}


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a host for rsync: who it is, the environment with the agent, and the host's side of the copy."""

    host: Host
    env: Mapping[str, str]
    remote: Remote
    root: bool  # the host's side of the copy may read and write everything
    said: tuple[str, ...] = ()  # what the look of `way_to` printed, by lines


@contextmanager
def own_folder(disk: Path, name: str, *, reads: bool = False) -> Iterator[Path]:
    """A host's folder on the backup disk for this process alone; with `reads` also on one that is read-only.

    Raises NotYet while another copy works in it, StoreError when it cannot be locked.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(host_folder(disk, name, reads=reads))
        except FolderBusy as busy:
            raise NotYet(str(busy)) from None
        yield folder


@contextmanager
def way_to(host: Host, run: Run, look: str = "") -> Iterator[Way]:
    """An agent and a config for one job, gone afterwards. Raises JobFailed when the host lacks what a copy needs.

    The host is asked before anything is done. `look` is sh that asks it further, with `$rsync` as what may read most,
    in the same round trip: each one costs what the login's start-up files take. Raises NotYet while a copy holds its
    lock.
    """
    target = target_of(host)
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(run))
        try:
            agent = stack.enter_context(JobAgent(target.private_key, folder))
            alias, config = _prepared(target, agent)
            remote = Remote(alias, config, lock=host.copy_lock)
            question = remote.idle_command()  # says no to a lock that no shell could be told
        except (KeyRefused, ValueError) as refused:
            raise JobFailed(f"rsync cannot be pointed at {host.name}: {refused}", Failure.REFUSED) from None
        uid, sudo, said = _asked(run.shell(), host, question, look)
        yield Way(host, agent.env, replace(remote, sudo=sudo), root=sudo or uid == 0, said=said)


def _prepared(target: Target, agent: JobAgent) -> tuple[str, Path]:
    """Alias and config for ssh. Raises KeyRefused, and ValueError for what ssh cannot be told."""
    hop = _hop(target, agent.public_keys[0])
    if target.jump is None:
        return hop.alias, agent.write_config(hop)
    if target.jump.jump is not None:
        raise ValueError(f"its jump host {target.jump.name} has a jump host itself, and rsync can pass one only.")
    return hop.alias, agent.write_config(hop, _hop(target.jump, agent.add(target.jump.private_key)))


def sweep(base: Path) -> None:
    """Remove the folders of jobs that were killed: old enough to have an agent, and no agent answers there."""
    for left in base.glob("ph[0-9]*-*"):
        with suppress(OSError):  # its job ended meanwhile
            if time.time() - left.stat().st_mtime > YOUNG and not _agent_answers(left / AGENT_SOCKET):
                shutil.rmtree(left)


def _agent_answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(os.fspath(path)) == 0


@contextmanager
def _folder(run: Run) -> Iterator[Path]:
    base = Path(settings.PIHERDER_RUNTIME)
    if len(os.fspath(base)) > LONGEST_BASE:
        base = Path(tempfile.gettempdir())
    else:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(base)
    folder = Path(tempfile.mkdtemp(prefix=f"ph{run.job_id}-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hop(target: Target, public_key_file: Path) -> Hop:
    keys = [f"{pin.key_type} {pin.public_base64}" for pin in target.pins]
    return Hop(target.name, target.address, target.user, keys, public_key_file, target.port)


def rights(shell: Any, host: Host, idle_command: str = "true") -> tuple[int, bool]:
    """The login's uid on the host and whether `sudo -n rsync` works there, in one round trip.

    Raises JobFailed when rsync is missing, NotYet when `idle_command` says that a copy is running.
    """
    return _asked(shell, host, idle_command, "")[:2]


def _asked(shell: Any, host: Host, idle_command: str, look: str) -> tuple[int, bool, tuple[str, ...]]:
    """See `rights` and `way_to`; the last is what `look` printed."""
    script = RIGHTS.format(idle=idle_command, busy=BUSY_EXIT, end=END_OF_RIGHTS, look=look)
    answer = shell.script(script, timeout=120 if look else 60)
    if answer.exit_status == 3:
        raise JobFailed(f"rsync is missing on {host.name}; install the package rsync there.", Failure.REFUSED)
    if answer.exit_status == BUSY_EXIT:
        raise NotYet(f"Another copy is running on {host.name}.")
    told, _, said = answer.stdout.partition(f"\n{END_OF_RIGHTS}\n")
    words = told.split()
    uid = int(words[0]) if words and words[0].isdigit() else -1
    return uid, uid != 0 and "sudo" in words, tuple(said.splitlines())


def reached(shell: Any, remote: Remote, paths: Sequence[bytes]) -> int:
    """How many of these paths, each below the one before, are there on the host, up to the first that is not.

    rsync looks, since it is what a login with little rights may run as root.
    """
    look = REACHED.format(rsync="sudo -n rsync" if remote.sudo else "rsync")
    answer = shell.run(["sh", "-c", look, "sh", *map(os.fsdecode, paths)], timeout=60)
    return int(answer.stdout.split().count("there"))


def copy(
    run: Run,
    way: Way,
    command: Copy,
    *,
    destination: str,
    on_progress: Callable[[Progress], None],
    on_file: Callable[[FileLine], None],
    push: bool = False,
) -> tuple[Finished, Verdict]:
    """Run one rsync and judge it. A stop ends both sides first. Raises NotYet when a lock is taken, StopWork.

    `push`: the host is the one that is written to.
    """
    try:
        done = run_copy(
            command, way.env, check=run.check_cancel, on_progress=on_progress, on_file=on_file, on_line=run.log
        )
    except StopWork as stop:
        stop.unconfirmed = not ended_there(way, run)
        raise
    case = _case(done, way, destination, push)
    verdict = judge(case)
    if verdict.kind is Kind.NOISY:
        noise = login_noise(way.remote, way.env, run.check_cancel)
        verdict = judge(replace(case, noise=noise))
    return done, verdict


def _case(done: Finished, way: Way, destination: str, push: bool) -> Case:
    host, user = way.host.name, way.host.user
    return Case(done.exit_code, done.messages, host, user, destination, push=push, others=done.others)


def ended_there(way: Way, run: Run) -> bool:
    """True when the host says that no copy holds its lock, asked for at most 60 s over a connection of its own."""
    give_up = time.monotonic() + CONFIRM
    with run.shielded():
        while time.monotonic() < give_up:
            try:
                with log_in(way.host) as shell:
                    if shell.script(way.remote.idle_command(), timeout=20).exit_status == 0:
                        return True
            except SshError as error:
                run.log(f"{way.host.name} cannot say yet whether the copy has ended there: {error}")
            time.sleep(1)
    return False


def refuse_busy(verdict: Verdict) -> None:
    """A lock that another copy holds is a wait, never a failure. Raises NotYet."""
    if verdict.busy:
        raise NotYet(verdict.sentence)


def code_of(verdict: Verdict) -> Failure:
    """The engine's code for a verdict."""
    return CODES.get(verdict.kind, Failure.ERROR)


def shown(paths: tuple[bytes, ...], limit: int = 100) -> list[str]:
    """Printable names, at most `limit`."""
    return [log_text(path) for path in paths[:limit]]
