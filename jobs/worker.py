"""The worker's side of Celery: a bootstep that registers this boot, and signals that report on its pool."""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery import bootsteps, signals
from celery.worker import state
from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction
from django.utils import timezone

from jobs import deaf, losses, node, transitions
from jobs.deaf import Ears
from jobs.models import Job, Status, WorkerNode
from jobs.monitor import Heart, Loop, Monitor, wait_for
from jobs.outcome import killed_at_limit, worker_lost
from jobs.sweeper import Sweeper
from jobs.tasks import TASKS
from jobs.transitions import LostClaim

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator
    from datetime import datetime

    from jobs.node import Me

logger = logging.getLogger(__name__)
EXIT_DUPLICATE = 78  # EX_CONFIG: another live worker has this name
EXIT_BURIED = 70
EXIT_DEAF = 75  # EX_TEMPFAIL: a fresh start hears again
WATCH_BEATS = 2.2  # heartbeats that an earlier boot of our name is watched for
DRAIN = "drain"
DRAIN_PAUSE = 1.0  # seconds between two tries to write that this worker was told to stop
TURNS = 3  # tries to take the place of our name
_heart: list[Heart] = []


def carried() -> set[int]:
    """Ids of the jobs that this worker's pool has accepted and not finished."""
    return {request.args[0] for request in list(state.active_requests) if request.name in TASKS and request.args}


def held() -> int:
    """Number of messages, of any kind, that this worker has taken and not finished."""
    return max(len(state.active_requests), len(state.reserved_requests))


class NodeStep(bootsteps.StartStopStep):
    """Registers this boot: buries earlier ones of its name, refuses to start beside a live one, then beats and sweeps.

    It has no `stop`: a step that needs the pool is stopped before the pool drains, and the heart must beat until the
    last child is gone.
    """

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        """Take this boot's place; built before the pool forks, so that each child inherits who it is."""
        super().__init__(worker, **kwargs)
        self.me = node.become(worker.hostname)
        self.queues: list[str] = sorted(worker.app.amqp.queues.consume_from)
        take_place(self.me, slots=worker.concurrency, queues=self.queues)
        connection.close()

    def start(self, worker: Any) -> None:
        """Begin to beat and to sweep, once the pool is there."""
        for job in Job.objects.filter(node=self.me.name, status=Status.RUNNING).exclude(boot=self.me.boot):
            with suppress(LostClaim):
                losses.end_lost(job, self.me)
        connection.close()
        heart = Heart(self.me, buried)
        _heart[:] = [heart]
        Monitor(Sweeper(self.me, carried, heart.writes), heart).start()
        ears = Ears(self.me.boot, self.queues, lambda: state.all_total_count[0], held, not_heard)
        Loop("ears", deaf.PERIOD, ears.turn, ears.forget).start()


def take_place(me: Me, *, slots: int, queues: list[str]) -> None:
    """Insert this boot as the one that lives under its name; exit with EXIT_DUPLICATE when another one does.

    Another that started at the same instant may be faster: it is watched like any earlier one.
    """
    for _ in range(TURNS):
        replace_earlier_boots(me.name)
        row = {"pid": os.getpid(), "machine": platform.node(), "slots": slots, "queues": queues}
        try:
            with transaction.atomic():
                WorkerNode.objects.create(boot=me.boot, name=me.name, **row)
            return
        except IntegrityError:
            continue
    _refuse(me.name)


def replace_earlier_boots(name: str) -> None:
    """Mark dead the boots of our name that are silent; exit with EXIT_DUPLICATE when one of them still beats."""
    for old in WorkerNode.objects.filter(name=name, dead_at__isnull=True):
        first = old.beats

        def moved(boot: WorkerNode = old, before: int = first) -> bool:
            boot.refresh_from_db()
            return boot.beats != before

        if not _gone_from_here(old) and wait_for(moved, WATCH_BEATS * settings.PIHERDER_BEAT_SEC):
            _refuse(name)
        old.refresh_from_db()
        losses.bury(old, "replaced by a new start of the same name")


def _refuse(name: str) -> None:
    print(
        f"A worker named {name} is already running: start this one with another name, "
        f"for example `-n {name.split('@')[0]}2@%h` or PIHERDER_NODE.",
        file=sys.stderr,
    )
    sys.stderr.flush()
    os._exit(EXIT_DUPLICATE)


def _gone_from_here(old: WorkerNode) -> bool:
    """True when the boot ran on this machine and its process is gone: no need to watch for silence.

    In two containers of one machine name (which Docker does not give) this could be wrong; they differ in name.
    """
    return old.machine == platform.node() and old.pid != os.getpid() and not os.path.exists(f"/proc/{old.pid}")


def buried() -> None:
    """Others marked this boot dead: its rows have ended, so its children must too; a supervisor starts a fresh boot."""
    logger.critical("this worker was marked dead while it was silent: ending its jobs and exiting")
    _leave(EXIT_BURIED)


def not_heard() -> None:
    """This boot takes no messages any more and runs nothing: a supervisor starts a fresh one."""
    _sign_off("it took no messages any more")
    _leave(EXIT_DEAF)


def _leave(code: int) -> None:
    for pid in _children():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(code)


def _sign_off(why: str) -> None:
    """Mark this boot dead ourselves, with the heart at rest: it would take that for a burial."""
    for heart in _heart:
        heart.rest()
    with _own_connection():
        boot = node.me().boot
        WorkerNode.objects.filter(pk=boot, dead_at__isnull=True).update(dead_at=timezone.now(), dead_why=why)


def _children() -> list[int]:
    """Pids of this process's children (Linux)."""
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        # A thread that ends between the listing and the look takes its folder along.
        with suppress(FileNotFoundError, ProcessLookupError), open(_children_of(thread), encoding="ascii") as handle:
            found += [int(pid) for pid in handle.read().split()]
    return found


def _children_of(thread: str) -> str:
    return f"/proc/self/task/{thread}/children"


@signals.worker_shutting_down.connect
def drain(**_: Any) -> None:
    """SIGTERM: say so on the node's row; each job's own thread then counts the grace.

    A thread writes it, as often as that takes: the database may be going down with this worker, and a signal handler
    must not wait for a connection that the interrupted code may be using.
    """
    with suppress(RuntimeError):  # this process is no worker
        _drain_loop(node.me().boot, timezone.now()).start()


def _drain_loop(boot: uuid.UUID, since: datetime) -> Loop:
    def turn() -> None:
        WorkerNode.objects.filter(pk=boot, drain_at__isnull=True).update(drain_at=since)
        loop.finish()

    return (loop := Loop(DRAIN, DRAIN_PAUSE, turn))


@signals.worker_shutdown.connect
def gone(**_: Any) -> None:
    """The pool has drained: this boot ends here."""
    _sign_off("stopped")


@signals.task_failure.connect
def child_lost(sender: Any = None, exception: BaseException | None = None, args: Any = None, **_: Any) -> None:
    """A pool child died under a job: the parent reports it, unless another child carries the same job."""
    if not isinstance(exception, WorkerLostError | TimeLimitExceeded) or getattr(sender, "name", "") not in TASKS:
        return
    with _own_connection(), suppress(LostClaim):
        report_child(args[0], overran=isinstance(exception, TimeLimitExceeded))


@contextmanager
def _own_connection() -> Iterator[None]:
    """A piece of work on the database by a thread of Celery's, which lives on without it.

    No request ends there and no task, so nobody else puts away a connection that broke meanwhile.
    """
    try:
        with suppress(DatabaseError, InterfaceError, RuntimeError):  # RuntimeError: this process is no worker
            yield
    finally:
        if not connection.in_atomic_block:
            connection.close()


def report_child(job_id: int, *, overran: bool = False) -> None:
    """Fail or put back the row of a dead child; `overran`: Celery killed it at the hard limit. Raises LostClaim.

    Where the host can tell how the work ended, the sweep asks it.
    """
    me = node.me()
    job = Job.objects.filter(pk=job_id, boot=me.boot, status__in=(Status.PENDING, Status.RUNNING)).first()
    others = sum(1 for request in list(state.active_requests) if request.args and request.args[0] == job_id)
    if job is None or others > 1:
        return
    if job.status == Status.RUNNING:
        if not losses.look_of(job):
            transitions.end_orphan(job, killed_at_limit() if overran else worker_lost(job.node))
    else:
        transitions.release_pick_up(job, "the worker's process died before the work began")
