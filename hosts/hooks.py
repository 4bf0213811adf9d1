"""The owner's commands around a backup: one before it, and one after it that runs whatever happened."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from hosts import ssh
from hosts.access import target_of
from hosts.ssh_errors import HostDown, SshError
from jobs.registry import JobFailed, Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from hosts.models import Host
    from hosts.ssh import Shell

LIMIT = 1800.0  # seconds that a command may take
STOPPED_LIMIT = 40.0  # seconds once the job was told to end: the engine kills work that takes two minutes for it
AWAY = 60.0  # seconds that a host which went away may take to come back for the command after the backup


@contextmanager
def around(run: Run, host: Host) -> Iterator[None]:
    """Run the commands around the block; the one after it also when the block or the command before it failed.

    Raises JobFailed when a command fails. Its failure never hides a stop or an earlier failure: it is added to it.
    """
    try:
        if host.before_hook:
            run.step("hook before")
            _carry_out(run, run.shell(), host.before_hook, "before", LIMIT)
        yield
    except JobFailed as failed:
        if problem := _after(run, host, AWAY, LIMIT):
            raise JobFailed(f"{failed} {problem}", failed.code, failed.result) from failed
        raise
    except BaseException as stop:
        if problem := _after(run, host, 0, STOPPED_LIMIT):
            stop.add_note(problem)
        raise
    if problem := _after(run, host, AWAY, LIMIT):
        raise JobFailed(problem)


def _after(run: Run, host: Host, away: float, limit: float) -> str:
    """A sentence when the command after the backup failed, else ""."""
    if not host.after_hook:
        return ""
    run.log("== hook after")
    try:
        with run.shielded(), _shell(run, host, away) as shell:
            _carry_out(run, shell, host.after_hook, "after", limit)
    except (JobFailed, SshError) as problem:
        sentence = str(problem)
        if isinstance(problem, SshError):
            sentence = f"The command after the backup may not have run: {sentence}"
        run.log(sentence)
        return sentence
    return ""


def _shell(run: Run, host: Host, away: float) -> AbstractContextManager[Shell]:
    """The job's connection, or a new one where that has died: a stopped service waits for its start."""
    shell: Shell = run.shell()
    if shell.alive:
        return nullcontext(shell)
    give_up = time.monotonic() + away
    while True:
        try:
            return ssh.connect(target_of(host), check=run.check_cancel)
        except HostDown:
            if time.monotonic() >= give_up:
                raise
        time.sleep(1)


def _carry_out(run: Run, shell: Shell, command: str, when: str, limit: float) -> None:
    done = shell.script(command, timeout=limit, on_line=lambda stream, text: run.log(f"hook: {text}"))
    if done.exit_status != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["it said nothing"]
        raise JobFailed(f"The command {when} the backup failed with exit code {done.exit_status}: {last[0][:200]}")
