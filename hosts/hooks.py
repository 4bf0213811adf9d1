"""The owner's commands around a backup: one before it, and one after it that runs whatever happened.

A worker that was killed runs nothing any more, so the host's row says from the command before the backup on that the
one after it is owed; whoever meets the host next, without a backup at work there, makes up for it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from hosts.access import log_in
from hosts.at_work import at_work
from hosts.models import Host
from hosts.roots import mounted, root_of
from hosts.ssh_errors import HostDown, SshError
from hosts.store.lock import FolderBusy, host_folder
from hosts.store.paths import StoreError
from jobs.patience import patiently
from jobs.registry import JobFailed, Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from hosts.ssh import Shell

LIMIT = 1800.0  # seconds that a command may take
STOPPED_LIMIT = 40.0  # seconds once the job was told to end: a container must not stay down for long, nor the stop
OWED_LIMIT = 120.0  # seconds that an owed command may take while facts are read
CLEARING = 20.0  # seconds that the database may be away when an owed command has run
AWAY = 60.0  # seconds that a host which went away may take to come back for the command after the backup


@contextmanager
def around(run: Run, host: Host) -> Iterator[None]:
    """Run the commands around the block; the one after it also when the block or the command before it failed.

    Raises JobFailed when a command fails. Its failure never hides a stop or an earlier failure: it is added to it.
    """
    try:
        if host.before_hook:
            run.step("hook before")
            _owe(run, host)
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
    _settle(host)
    return ""


def _owe(run: Run, host: Host) -> None:
    """Say on the host's row that the command after the backup has to run."""
    if host.after_hook:
        row = Host.objects.filter(pk=host.pk)
        patiently(lambda: row.update(after_hook_owed_at=timezone.now()), run.check_cancel)


def _settle(host: Host) -> None:
    """It ran. A database that is away only means that it runs once more."""
    if host.before_hook or host.after_hook_owed_at:
        with suppress(DatabaseError, InterfaceError):
            patiently(lambda: Host.objects.filter(pk=host.pk).update(after_hook_owed_at=None), patience=CLEARING)


def owed(run: Run, host: Host) -> str:
    """A sentence for the summary of a backup whose own command makes up for the owed one, "" when none is owed."""
    if host.after_hook_owed_at is None or not host.after_hook:
        return ""
    run.log("An earlier backup ended without its command after the backup; this one makes up for it.")
    return "The command after the backup, owed by an earlier one, has run."


def pay(run: Run, host: Host) -> str:
    """Run the command that a cut-off backup owes, unless a copy is at work there. Says what came of it, "" for nothing.

    One that fails is said in words and stays owed.
    """
    if host.after_hook_owed_at is None:
        return ""
    with ExitStack() as stack:
        if not _enter_alone(stack, host) or not patiently(lambda: _is_still_owed(host), run.check_cancel):
            return ""
        if not host.after_hook:
            _settle(host)
            return ""
        problem = _after(run, host, 0, OWED_LIMIT)
    if problem:
        return f"The command after the backup is owed by an earlier one, and failed: {problem}"
    run.log("The command after the backup, owed by an earlier one, has run.")
    return "The command after the backup, owed by an earlier one, has run."


def _enter_alone(stack: ExitStack, host: Host) -> bool:
    """Keep backups of the host from beginning meanwhile; False when a copy is at work. Without the disk none begins."""
    try:
        stack.enter_context(host_folder(mounted(root_of(host)), host.name))
    except FolderBusy:
        return False
    except (JobFailed, StoreError, OSError):
        pass
    return True


def _is_still_owed(host: Host) -> bool:
    owing = Host.objects.filter(pk=host.pk, after_hook_owed_at__isnull=False).exists()
    return owing and not at_work(host.pk, "backup", "stack")


def _shell(run: Run, host: Host, away: float) -> AbstractContextManager[Shell]:
    """The job's connection, or a new one where that has died: a stopped service waits for its start."""
    shell: Shell = run.shell()
    if shell.alive:
        return nullcontext(shell)
    give_up = time.monotonic() + away
    while True:
        try:
            return log_in(host, run.check_cancel)
        except HostDown:
            if time.monotonic() >= give_up:
                raise
        time.sleep(1)


def _carry_out(run: Run, shell: Shell, command: str, when: str, limit: float) -> None:
    done = shell.script(command, timeout=limit, on_line=lambda stream, text: run.log(f"hook: {text}"))
    if done.exit_status != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["it said nothing"]
        raise JobFailed(f"The command {when} the backup failed with exit code {done.exit_status}: {last[0][:200]}")
