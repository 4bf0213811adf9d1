"""Base of the families that work on a host: turns what SSH and the store say into the engine's words."""

from __future__ import annotations

from hosts.models import Host
from hosts.ssh_errors import CommandTimeout, HostDown, HostRefused, LostContact, SshError, StopUnconfirmed, SudoRefused
from hosts.store.paths import StoreError
from jobs.models import Failure
from jobs.patience import patiently
from jobs.registry import Family, JobFailed, Run, StopWork, Summary
from jobs.transitions import LostClaim

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
