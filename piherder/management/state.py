"""How the installation is, part by part: each look is bounded, and each fault is one plain sentence."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError, ResponseError
from redis.retry import Retry

from hosts import standing
from hosts.models import BackupRoot, Host
from hosts.root_admin import RootView, view
from jobs.beat import RENEW
from jobs.management.door import database_words
from jobs.models import ACTIVE, BeatLease, EngineSettings, Job, Status, WaitingOn, WorkerNode
from piherder.archive.overview import Overview, overview
from piherder.house import form

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable

LONGEST_LOOK = 5.0  # seconds until a server counts as away
GLANCE = 0.25  # seconds between two looks at the counters
SAFE_POLICY = "noeviction"


@dataclass(slots=True)
class Node:
    """A worker that is not marked dead; `silent_for` is 0 when its counter moved while we watched, else seconds."""

    name: str
    slots: int
    queues: list[str]
    busy: int
    draining: bool
    silent_for: float


@dataclass(slots=True)
class State:
    """Everything `status` shows; `problems` are what needs attention."""

    form: form.Form = field(default_factory=form.look)
    database: dict[str, Any] = field(default_factory=dict)
    redis: dict[str, Any] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    beat: dict[str, Any] = field(default_factory=dict)
    jobs: dict[str, Any] = field(default_factory=dict)
    waiting: list[Job] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    roots: list[RootView] = field(default_factory=list)
    archives: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def within(seconds: float, look: Callable[[], None]) -> str:
    """Run `look` in a thread; returns "" when it came back in time, else why not, in words."""
    told: list[str] = []

    def run() -> None:
        try:
            look()
            told.append("")
        except (DatabaseError, InterfaceError, OSError) as error:
            told.append((str(error).strip().splitlines() or ["no reason given"])[0])

    thread = threading.Thread(target=run, daemon=True, name="look")
    thread.start()
    thread.join(seconds)
    return told[0] if told else f"no answer within {seconds:g} s"


def database_answers() -> None:
    """One query over a connection of its own. Raises DatabaseError."""
    own = connection.copy()
    try:
        with own.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        own.close()


def look_at_database(state: State) -> bool:
    """Kind and reachability; True when the rest can be read. Later statements are limited too."""
    kind = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(connection.vendor, connection.vendor)
    place = str(connection.settings_dict["NAME"])
    if connection.vendor != "sqlite":
        place = f"{connection.settings_dict['HOST'] or 'localhost'}/{place}"
    why = within(LONGEST_LOOK, database_answers)
    state.database = {"kind": kind, "place": place, "reachable": not why}
    if why:
        state.problems.append(f"The database ({kind}, {place}) cannot be used ({why}): start it or check DATABASE_URL.")
    elif connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, false)", [f"{LONGEST_LOOK:g}s"])
    return not why


def look_at_redis(state: State, queues: Iterable[str]) -> None:
    """Reachability, eviction policy and the depth of `queues`; one round trip."""
    half = LONGEST_LOOK / 2  # connecting and answering
    client = redis.Redis.from_url(
        settings.PIHERDER_REDIS_URL, socket_timeout=half, socket_connect_timeout=half, decode_responses=True,
        retry=Retry(NoBackoff(), 0),
    )  # fmt: skip
    names = sorted(queues)
    try:
        with client.pipeline(transaction=False) as pipe:
            pipe.ping()
            pipe.config_get("maxmemory-policy")
            for name in names:
                pipe.llen(name)
            pong, policy, *depths = pipe.execute(raise_on_error=False)
        if isinstance(pong, RedisError):  # it answers, but serves nobody: still loading, or its disk is full
            raise pong
    except RedisError as error:
        state.redis = {"reachable": False, "policy": None, "queues": dict.fromkeys(names)}
        refuses = isinstance(error, ResponseError | BusyLoadingError)
        does = "answers with errors" if refuses else "does not answer"
        state.problems.append(f"Redis {does} ({str(error).rstrip('.')}): jobs wait until it is back.")
        return
    finally:
        client.close()
    found = policy.get("maxmemory-policy") if isinstance(policy, dict) else None
    state.redis = {"reachable": True, "policy": found, "queues": dict(zip(names, map(depth, depths), strict=True))}
    if found not in (None, SAFE_POLICY):
        state.problems.append(
            f"Redis may throw keys away when its memory is full (maxmemory-policy {found}): set it to {SAFE_POLICY}."
        )


def depth(answer: object) -> int | None:
    """A queue's length; None when Redis answered with an error."""
    return answer if isinstance(answer, int) else None


class Pulse:
    """Watches the counters of workers and of beat for a moment: only what moves is alive, whatever a clock says."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.first = self._read()
        self.moved: set[uuid.UUID | int] = set()

    def _read(self) -> dict[uuid.UUID | int, int]:
        beats = dict(WorkerNode.objects.filter(dead_at__isnull=True).values_list("boot", "beats"))
        lease = dict(BeatLease.objects.filter(holder__isnull=False).values_list("pk", "counter"))
        return cast("dict[uuid.UUID | int, int]", {**beats, **lease})

    def watch(self, seconds: float) -> None:
        """Until all have moved, at most `seconds` from the first look."""
        while self.first.keys() - self.moved and time.monotonic() - self.began < seconds:
            time.sleep(GLANCE)
            now = self._read()
            self.moved |= {key for key, beats in self.first.items() if now.get(key, beats) != beats}

    def silent_for(self, key: uuid.UUID | int) -> float:
        """0.0 for one that moved, else how long it was watched, in seconds."""
        return 0.0 if key in self.moved else time.monotonic() - self.began


def watching_seconds() -> float:
    """How long to watch so that whoever is alive has moved once."""
    return max(float(settings.PIHERDER_BEAT_SEC), RENEW) * 1.25 + 0.5


def look_at_nodes(state: State, pulse: Pulse) -> None:
    """Workers and the beat that leads, judged by `pulse`."""
    for row in WorkerNode.objects.filter(dead_at__isnull=True):
        busy = Job.objects.filter(boot=row.boot, status=Status.RUNNING).count()
        silent = pulse.silent_for(row.boot)
        state.nodes.append(Node(row.name, row.slots, row.queues, busy, row.drain_at is not None, round(silent, 1)))
        if silent:
            state.problems.append(f"The worker {row.name} has been silent for {silent:.0f} s: is its process running?")
    if not any(not node.silent_for and not node.draining for node in state.nodes):
        state.problems.append(f"No worker is running: start one with {state.form.start}; jobs wait for it.")
    lease = BeatLease.objects.filter(pk=1, holder__isnull=False).first()
    silent = pulse.silent_for(lease.pk) if lease else 0.0
    state.beat = {"holder": lease.name if lease else None, "silent_for": round(silent, 1)}
    if lease is None or silent:
        state.problems.append(f"No beat is running, so no schedule fires: start one with {state.form.start}.")


def look_at_jobs(state: State) -> None:
    """Counts, the oldest that is queued, and those that wait for a host or a lock."""
    active = Job.objects.filter(status__in=ACTIVE).select_related("host").order_by("id")
    pending = active.filter(status=Status.PENDING)
    state.waiting = list(pending.filter(waiting_on__in=(WaitingOn.HOST, WaitingOn.LOCK)))
    state.jobs = {
        "running": active.filter(status=Status.RUNNING).count(),
        "pending": pending.count(),
        "oldest_pending": pending.first(),
    }


def look_at_holds(state: State) -> None:
    """The switch that holds the herd, and paused hosts."""
    switch = EngineSettings.load()
    if switch.held:
        reason = f" ({switch.hold_reason})" if switch.hold_reason else ""
        state.holds.append(f"the herd is on hold by {switch.held_by}{reason}: ./herder release")
    for host in Host.herd.filter(paused_at__isnull=False):
        if host.paused():
            reason = f" ({host.pause_reason})" if host.pause_reason else ""
            state.holds.append(f"{host.name} is paused{reason}: ./herder pause_host {host.name} --resume")


def look_at_roots(state: State) -> None:
    """Every backup root: marker and free space. A disk that hangs is given up on."""
    rows = list(BackupRoot.objects.all())
    if not rows:
        state.problems.append("There is no backup root: add one with ./herder backup_root --add PATH --default.")
    for row in rows:
        seen: list[RootView] = []
        why = within(LONGEST_LOOK, lambda row=row, seen=seen: seen.append(view(row)))  # type: ignore[misc]  # bound now
        found = seen[0] if seen else RootView(row.path, row.is_default, f"{row.path}: {why}.", None, None, ())
        state.roots.append(found)
        if found.problem:
            state.problems.append(found.problem)
    state.problems += form.hidden_roots(state.form, [row.path for row in rows])


def look_at_backups(state: State) -> None:
    """Backups that are late, damaged or skipped; while the herd is on hold nobody expects any."""
    if not EngineSettings.load().held:
        state.problems += standing.problems()


def look_at_archives(state: State) -> None:
    """The herder's own backup: how many archives there are, the newest, and what is wrong with them."""
    found: list[Overview] = []

    def read() -> None:
        try:
            found.append(overview())
        finally:
            connection.close()

    why = within(LONGEST_LOOK, read)
    if not found:
        state.problems.append(f"The archives of the herder cannot be looked at: {why}.")
        return
    newest = found[0].archives[0] if found[0].archives else None
    state.archives = {
        "folder": str(found[0].folder),
        "count": len(found[0].archives),
        "newest": newest.path.name if newest else None,
        "newest_at": newest.name.taken_at if newest else None,
        "encrypted": newest.name.encrypted if newest else None,
        "master_key_inside": newest.key_inside if newest else None,
    }
    state.problems += found[0].problems


def look(watch: float | None = None) -> State:
    """Look at everything; `watch` bounds the seconds of watching counters (default: what it takes to be sure)."""
    state = State()
    state.problems += state.form.problems
    if not look_at_database(state):
        look_at_redis(state, [settings.CELERY_TASK_DEFAULT_QUEUE])
        return state
    queues = {settings.CELERY_TASK_DEFAULT_QUEUE}
    try:
        pulse = Pulse()
        known = WorkerNode.objects.filter(dead_at__isnull=True).values_list("queues", flat=True)
        queues |= {name for names in known for name in names}
        look_at_jobs(state)
        look_at_holds(state)
        look_at_roots(state)
        look_at_backups(state)
        look_at_archives(state)
        pulse.watch(watching_seconds() if watch is None else watch)
        look_at_nodes(state, pulse)
    except (DatabaseError, InterfaceError) as error:
        state.problems.append(database_words(error))
    look_at_redis(state, queues)
    return state
