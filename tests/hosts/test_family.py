"""What SSH and the store say, as the engine's own words."""

from __future__ import annotations

import pytest

from hosts import ssh_errors
from hosts.family import HostFamily, code_of, stopped
from hosts.store.paths import StoreError
from jobs.models import Failure
from jobs.registry import JobFailed, Run, StopWork, Summary
from jobs.transitions import LostClaim


class Raising(HostFamily):
    """Work that ends as it is told to."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def run(self, run: Run) -> Summary:
        raise self.error


def outcome(error: Exception) -> JobFailed:
    nothing: object = None
    with pytest.raises(JobFailed) as failed:
        Raising(error).carry_out(nothing)  # type: ignore[arg-type]  # never looked at
    return failed.value


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ssh_errors.LostContact("gone"), Failure.LOST_CONTACT),
        (ssh_errors.SudoRefused("no"), Failure.REFUSED),
        (ssh_errors.CommandTimeout("slow"), Failure.TIME_LIMIT),
        (ssh_errors.HostDown("off"), Failure.HOST_UNREACHABLE),
        (ssh_errors.HostRefused("no", "auth_failed"), Failure.AUTH_FAILED),
        (ssh_errors.SshError("else"), Failure.ERROR),
        (StoreError("disk"), Failure.ERROR),
    ],
)
def test_errors_keep_their_sentence_and_get_a_code(error: Exception, code: Failure) -> None:
    failed = outcome(error)
    assert (str(failed), failed.code) == (str(error), code)


def unconfirmed(cause: Exception | None) -> ssh_errors.StopUnconfirmed:
    error = ssh_errors.StopUnconfirmed("pi1 could not be asked")
    error.__cause__ = cause
    return error


def test_a_stop_that_the_host_did_not_confirm_says_so() -> None:
    stop = StopWork("cancel")
    with pytest.raises(StopWork) as raised:
        Raising(unconfirmed(stop)).carry_out(None)  # type: ignore[arg-type]  # never looked at
    assert (raised.value, stop.unconfirmed) == (stop, True)


def test_a_lost_claim_stays_one() -> None:
    lost = LostClaim("not ours")
    assert stopped(unconfirmed(lost)) is lost


def test_an_unconfirmed_time_out_is_lost_contact() -> None:
    failed = outcome(unconfirmed(ssh_errors.CommandTimeout("slow")))
    assert failed.code == Failure.LOST_CONTACT


def test_a_stop_passes_untouched() -> None:
    with pytest.raises(StopWork):
        Raising(StopWork("cancel")).carry_out(None)  # type: ignore[arg-type]  # never looked at


def test_an_unknown_error_of_ssh_has_the_common_code() -> None:
    assert code_of(ssh_errors.SshError("x")) == Failure.ERROR
