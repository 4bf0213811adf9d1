"""A herd: real processes of an installation on a database, a Redis and a folder of their own."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import redis
from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import connection
from kombu import pools

from hosts.models import Credential, Host
from jobs import mutex, registry, services
from jobs.models import ACTIVE, Door, Job, JobEvent, Lane, Status, WorkerNode
from jobs.services import Asker
from piherder import env
from piherder.celery import app
from piherder.house import stack
from piherder.house.folder import CLONE
from piherder.house.servers import PrivateRedis
from tests.faults import families
from tests.faults.database import connected, migrate
from tests.faults.gate import FileGate
from tests.faults.process import Process
from tests.faults.tempo import SHORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_django.plugin import DjangoDbBlocker

CELERY = (stack.program("celery"), "-A", "piherder")
WORKER = (*CELERY, "worker", "-l", "INFO", "--without-mingle", "--concurrency")
ASKER = Asker(Door.COMMAND, name="tests")
COUNTING = ("sleep", "copy", "other_copy")
GENEROUS = (
    45.0  # seconds that anything may take on a busy machine; promised times are asserted where they are the point
)


class Herd:
    """The processes and servers of one installation. `pace`: "short" times, or the "real" ones of production."""

    def __init__(self, folder: Path, url: str, pace: str = "short") -> None:
        self.folder, self.url = folder, url
        self.control = folder / "control"
        self.steps = folder / "steps"
        self.control.mkdir()
        self.redis = PrivateRedis(folder / "redis")
        self.redis.start()
        self.env = env.child_environment(
            DJANGO_SETTINGS_MODULE="tests.faults.settings",
            DATABASE_URL=url,
            REDIS_URL=self.redis.url,
            PIHERDER_DATA=str(folder),
            PIHERDER_TEST_KINDS="1",
            PYTHONUNBUFFERED="1",
            FAULTS_SHORT_TIMES=str(int(pace == "short")),
            **(SHORT if pace == "short" else {}),
        )
        self.processes: dict[str, Process] = {}
        self.asked: list[Job] = []
        self._tags = itertools.count()
        migrate(self.env)

    # --- processes -----------------------------------------------------------------------------------------------

    def worker(self, name: str = "alpha", **changes: str) -> Process:
        """A running worker with two slots that is ready for work; started when it does not run."""
        return self.workers(name, **changes)[0]

    def workers(self, *names: str, **changes: str) -> list[Process]:
        """Several, started at the same time."""
        found = [self._launch(name, [*WORKER, "2", "-n", f"{name}@faults"], changes) for name in names]
        return [self._ready(process, self._takes_work) for process in found]

    def _takes_work(self, process: Process) -> bool:
        return " ready." in process.output and self.beats(process) > 0

    def starting(self, name: str = "alpha", label: str = "second", **changes: str) -> Process:
        """A worker that was just started under `name`, whether one of that name runs or not."""
        argv = [*WORKER, "1", "-n", f"{name}@faults"]
        return self._spawn(label, argv, changes)

    def beat(self) -> Process:
        """A running beat; whether it leads is another question."""
        return self.schedulers("beat")[0]

    def schedulers(self, *names: str) -> list[Process]:
        """Several beats, started at the same time."""
        found = [self._launch(name, [*CELERY, "beat", "-l", "INFO", "--pidfile="], {}) for name in names]
        return [self._ready(process, lambda p: "beat: Starting" in p.output) for process in found]

    def web(self, port: int) -> Process:
        """A running web process on loopback."""
        process = self._launch("web", list(stack.web_command(stack.Options(self.folder, port=port))), {})
        return self._ready(process, lambda p: "Booting worker" in p.output)

    def _spawn(self, name: str, argv: list[str], changes: dict[str, str]) -> Process:
        old = self.processes.get(name)
        process = Process(name, argv, {**self.env, **changes}, self.folder)
        process.starts = old.starts if old else 0
        self.processes[name] = process
        process.start()
        return process

    def _launch(self, name: str, argv: list[str], changes: dict[str, str]) -> Process:
        process = self.processes.get(name)
        return process if process is not None and process.running else self._spawn(name, argv, changes)

    def _ready(self, process: Process, ready: Callable[[Process], bool]) -> Process:
        self.until(lambda: ready(process), f"{process.name} is ready")
        return process

    def beats(self, process: Process) -> int:
        """The heartbeats of a worker process; -1 when it is not registered or dead."""
        rows = WorkerNode.objects.filter(pid=process.pid, dead_at__isnull=True)
        return next(iter(rows.values_list("beats", flat=True)), -1)

    def only(self, *keep: Process) -> None:
        """Only these run on; the others are gone without a word."""
        for process in self.processes.values():
            if process not in keep:
                process.close()

    def close(self) -> None:
        """Nothing of it is left."""
        for process in self.processes.values():
            process.close()
        self.redis.close()

    # --- faults --------------------------------------------------------------------------------------------------

    def order(self, point: str, what: str) -> None:
        """The next process at `point` meets its fault; see `points`."""
        (self.control / point).write_text(what, encoding="ascii")

    def struck(self, point: str) -> bool:
        """True when the order was met."""
        return (self.control / f"{point}.taken").exists()

    def go_on(self, point: str) -> None:
        """End a halt."""
        (self.control / f"{point}.go").touch()

    def shift_clock(self, hours: float) -> None:
        """Move the wall clock of all processes at once."""
        draft = self.control / "clock.draft"
        draft.write_text(str(hours * 3600), encoding="ascii")
        draft.rename(self.control / "clock")

    def host_down(self, host_id: int, down: bool = True) -> None:
        """A host goes away, or comes back."""
        path = self.control / f"down-{host_id}"
        path.touch() if down else path.unlink()

    def calm(self) -> None:
        """No order stands, no clock is bent."""
        for path in self.control.iterdir():
            path.unlink()

    # --- jobs ----------------------------------------------------------------------------------------------------

    def ask(self, kind: str = "sleep", host: int | None = None, **params: Any) -> Job:
        """Request a job; a `sleep` or `copy` counts its steps, a `sleep` holds a lane of its own."""
        params = self.complete(kind, params)
        job = services.request_job(kind, host, params, asker=ASKER).job
        self.asked.append(job)
        return job

    def complete(self, kind: str, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters with the counter file and a tag, for kinds that count their steps."""
        if kind not in COUNTING:
            return params
        return {"seconds": 0.2, "counter": str(self.steps), "tag": f"t{next(self._tags)}", **params}

    def door(self, kind: str = "sleep", **params: Any) -> subprocess.CompletedProcess[str]:
        """Request a job from a process of its own."""
        argv = [sys.executable, "-m", "tests.faults.ask", kind, json.dumps(self.complete(kind, params))]
        return subprocess.run(argv, cwd=CLONE, env=self.env, capture_output=True, text=True, timeout=60)

    def cancel(self, job: Job) -> str:
        """Ask for a cancel; what the operator is told."""
        return services.request_cancel(job, asker=ASKER)

    def attempts(self, job: Job) -> dict[str, int]:
        """Steps done by each attempt of a job."""
        found: dict[str, int] = {}
        for line in self.steps.read_text(encoding="ascii").splitlines() if self.steps.exists() else []:
            number, attempt, _ = line.split()
            if int(number) == job.pk:
                found[attempt] = found.get(attempt, 0) + 1
        return found

    def works(self, job: Job) -> Job:
        """The job once its work goes on."""
        self.until(lambda: self.state(job) == Status.RUNNING and bool(self.attempts(job)), f"{job} works")
        job.refresh_from_db()
        return job

    def ended(self, job: Job, seconds: float = GENEROUS) -> Job:
        """The job once it has ended."""
        self.until(lambda: self.state(job) not in ACTIVE, f"{job} has ended", seconds)
        job.refresh_from_db()
        return job

    def state(self, job: Job) -> str:
        """Its status now."""
        return str(Job.objects.filter(pk=job.pk).values_list("status", flat=True).get())

    def host(self, name: str = "one") -> int:
        """Id of a host of that name."""
        key, _ = Credential.objects.get_or_create(name="key", defaults={"public_key": "", "fingerprint": ""})
        return Host.objects.get_or_create(name=name, defaults={"address": "127.0.0.1", "credential": key})[0].pk

    # --- waiting -------------------------------------------------------------------------------------------------

    def until(self, check: Callable[[], bool], what: str, seconds: float = GENEROUS) -> float:
        """Seconds until `check` is true. Fails with everything one wants to know when it never is."""
        began = time.monotonic()
        while not self._holds(check):
            assert time.monotonic() - began < seconds, f"not within {seconds:.0f} s: {what}\n{self.report()}"
            self.tend()
            time.sleep(0.05)
        return time.monotonic() - began

    def _holds(self, check: Callable[[], bool]) -> bool:
        """A server that is away answers nothing."""
        try:
            return check()
        except (DatabaseFault, redis.RedisError):
            with suppress(DatabaseFault):
                connection.close()
            return False

    def tend(self) -> None:
        """Start again what is kept and has ended, as a supervisor does."""
        for process in self.processes.values():
            if process.kept and not process.running:
                process.start()

    def report(self) -> str:
        """Rows, rights and last words."""
        lines = []
        with suppress(DatabaseFault):
            for job in Job.objects.filter(pk__in=[j.pk for j in self.asked]):
                events = [f"{e.at:%M:%S.%f} {e.name} {e.text}" for e in JobEvent.objects.filter(job=job)]
                lines.append(f"{job} {job.status} {job.failure} {job.error} {job.state_words} {events}")
            lines += [f"lane {lane} of {lane.job}" for lane in Lane.objects.all()]
        for process in self.processes.values():
            lines.append(f"--- {process.name} {'runs' if process.running else 'ended'}\n{process.output[-2500:]}")
        return "\n".join(lines)

    # --- the test's own process ----------------------------------------------------------------------------------

    @contextmanager
    def entered(self, blocker: DjangoDbBlocker) -> Iterator[None]:
        """This process is a door of the herd: its database, its broker, its hosts."""
        gate, kinds = registry._gate[:], dict(registry._families)
        address, broker = settings.PIHERDER_REDIS_URL, str(app.conf.broker_url)
        with blocker.unblock(), connected(self.url):
            families.install()
            registry.install_gate(FileGate(self.control))
            switch_broker(self.redis.url, "redis+socket://" + self.redis.url.removeprefix("unix://"))
            try:
                yield
            finally:
                registry._gate[:] = gate
                registry._families.clear()
                registry._families.update(kinds)
                switch_broker(address, broker)


def switch_broker(address: str, broker: str) -> None:
    """Let this process ask the Redis at `address` and publish to the one at `broker`, Celery's spelling."""
    mutex.client.cache_clear()
    settings.PIHERDER_REDIS_URL = address
    pools.reset()
    app.conf.update(broker_url=broker)
    vars(app)["_pool"] = vars(app.amqp)["_producer_pool"] = None
