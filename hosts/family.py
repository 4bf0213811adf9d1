"""Base of the families that work on a host: turns what SSH and the store say into the engine's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.models import Host
from hosts.ssh_errors import CommandTimeout, HostDown, HostRefused, LostContact, SshError, StopUnconfirmed, SudoRefused
from hosts.store.paths import StoreError
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import Family, JobFailed, Run, StopWork, Summary
from jobs.transitions import LostClaim

if TYPE_CHECKING:
    from datetime import timedelta

    from jobs.registry import Params

CODES: tuple[tuple[type[SshError], Failure], ...] = (
    (LostContact, Failure.LOST_CONTACT),
    (SudoRefused, Failure.REFUSED),
    (CommandTimeout, Failure.TIME_LIMIT),
    (HostDown, Failure.HOST_UNREACHABLE),
    (HostRefused, Failure.AUTH_FAILED),
)


class HostFamily(Family):
    """A kind of work on one host."""

    def carry_out(self, run: Run) -> Summary:
        """`run` with the errors of SSH and of the store as the engine's own."""
        try:
            return self.run(run)
        except StopUnconfirmed as unconfirmed:
            raise stopped(unconfirmed) from unconfirmed
        except SshError as error:
            raise JobFailed(str(error), code_of(error)) from error
        except StoreError as error:
            raise JobFailed(str(error)) from error


class BackupFamily(HostFamily):
    """A kind that goes through whole backups: each host may set how long that may last."""

    def limit_of(self, host_id: int | None, params: Params) -> timedelta:
        """The host's own limit."""
        limit = Host.objects.filter(pk=host_id or 0).values_list("backup_limit", flat=True).first()
        return limit or self.time_limit


def stopped(unconfirmed: StopUnconfirmed) -> Exception:
    """What stopped the work, marked as unconfirmed on the host."""
    cause = unconfirmed.__cause__
    if isinstance(cause, LostClaim):
        return cause
    if isinstance(cause, StopWork):
        cause.unconfirmed = True
        return cause
    return JobFailed(str(unconfirmed), Failure.LOST_CONTACT)


def code_of(error: SshError) -> Failure:
    """The engine's code for an error of the SSH layer."""
    return next((code for kind, code in CODES if isinstance(error, kind)), Failure.ERROR)


def host_of(run: Run) -> Host:
    """The job's host with what reaching it needs."""
    return patiently(lambda: Host.objects.select_related("credential", "jump", "backup_root").get(pk=run.host_id or 0))
