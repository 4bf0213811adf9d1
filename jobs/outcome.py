"""How the work of a claimed job ended: what its family returned or raised, turned into the end of the row."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from jobs.beside import CANCEL
from jobs.models import Failure, Status
from jobs.registry import JobFailed, NotYet, StopWork
from jobs.transitions import End, LostClaim

if TYPE_CHECKING:
    from jobs.node import Me
    from jobs.registry import Family
    from jobs.run import LiveRun

logger = logging.getLogger(__name__)
STOP_SENTENCES = {
    Failure.TIME_LIMIT: "Stopped at its time limit.",
    Failure.LOCK_LOST: "Stopped because another job holds the host's copy lock.",
    Failure.WORKER_STOPPED: "The worker {name} was stopped; the job was not resumed. Run it again.",
}
CANCELLED = "Cancelled; no process of the job is left."
UNCONFIRMED = (
    "Cancelled, but the host could not be asked whether the work there has ended: look there when it answers again. "
    "The lock of a copy there still keeps a second one away."
)


def carry_out(family: Family, live: LiveRun, me: Me) -> End | None:
    """Run the family and say how it ended; None when the row is no longer ours. Raises NotYet."""
    try:
        summary = family.carry_out(live)
        return End(Status.SUCCEEDED, summary=summary.text, result=summary.result)
    except NotYet:
        raise
    except LostClaim:
        return None
    except StopWork as stop:
        return stopped(stop, me)
    except SystemExit:  # a cold shutdown of the worker
        live.leave = True
        return stopped(StopWork(Failure.WORKER_STOPPED), me)
    except JobFailed as failed:
        if live.reason not in ("", failed.code):
            return _broken_by_stop(live, failed, me)
        return End(Status.FAILED, failure=failed.code, error=str(failed), result=failed.result)
    except Exception as error:
        if _is_soft_limit(error):
            return stopped(StopWork(Failure.TIME_LIMIT), me)
        if live.reason:
            return _broken_by_stop(live, error, me)
        return _fault(live, error)


def _fault(live: LiveRun, error: Exception) -> End:
    """A bug: it keeps its traceback."""
    for line in traceback.format_exc().splitlines():
        live.log(line)
    logger.exception("job %s", live.job_id)
    return fault(error, "; the log holds the traceback")


def fault(error: Exception, more: str = "") -> End:
    """The end of a job that met a bug."""
    text = f"A fault in PiHerder ended the job ({type(error).__name__}: {error}){more}."
    return End(Status.FAILED, failure=Failure.ERROR, error=text)


def _broken_by_stop(live: LiveRun, error: Exception, me: Me) -> End | None:
    """Work that was asked to stop and broke instead: the stop is the reason, its clean end is not proven."""
    live.log(f"While it was being stopped: {type(error).__name__}: {error}")
    stop = StopWork(live.reason)
    stop.unconfirmed = True
    return stopped(stop, me) if live.reason in {CANCEL, *Failure.values} else None


def _is_soft_limit(error: Exception) -> bool:
    """Celery's soft limit, by name: only the modules that speak to Celery import it."""
    return type(error).__name__ == "SoftTimeLimitExceeded"


def stopped(stop: StopWork, me: Me) -> End:
    """The end of a job that was asked to stop and did, with what its family noted on the stop."""
    notes: tuple[str, ...] = tuple(getattr(stop, "__notes__", ()))
    if stop.reason == CANCEL:
        if stop.unconfirmed:
            text = " ".join((UNCONFIRMED, *notes))
            return End(Status.CANCELLED, text, failure=Failure.CANCEL_UNCONFIRMED, error=text)
        return End(Status.CANCELLED, summary=" ".join((CANCELLED, *notes)))
    reason = Failure(stop.reason)
    usual = STOP_SENTENCES.get(reason, str(stop)).format(name=me.name)
    sentences = notes if notes and reason == Failure.TIME_LIMIT else (usual, *notes)  # a family says how far it came
    return End(Status.FAILED, failure=reason, error=" ".join(sentences))


def worker_lost(name: str) -> End:
    """The end of a job whose worker went away."""
    return End(
        Status.FAILED,
        failure=Failure.WORKER_LOST,
        error=f"The worker {name} was lost while the job ran; it was not resumed. Run it again.",
    )


def killed_at_limit() -> End:
    """The end of a job whose process did not heed its time limit."""
    return End(
        Status.FAILED,
        failure=Failure.TIME_LIMIT,
        error="Stopped at its time limit: its process did not end when it was asked to and was killed.",
    )
