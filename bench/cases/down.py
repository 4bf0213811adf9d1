"""Start of a job on a host that is up, while 100 hosts are down and a job waits for each of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.asking import ask, cancel_pending, ended
from bench.figures import Aim, Kind, Result, median
from bench.machines import add, blackhole, closed_port, machines
from bench.programs import migrate, worker
from hosts.gate import note_failure
from jobs.models import Job

if TYPE_CHECKING:
    from pathlib import Path

AIM = Aim(Kind.RATIO, 1.2)
DOWN = 100
PAUSE = 0.4  # seconds between two samples: a round meets several looks at the hosts that are down


def start(host: int) -> float:
    """Milliseconds from a request on the host that is up to its running row."""
    began = time.time()
    job = ask("host_facts", host)
    ended([job])
    started = Job.objects.values_list("started_at", flat=True).get(pk=job)
    assert started is not None
    time.sleep(PAUSE)
    return 1000 * (started.timestamp() - began)


def wait_for_all(down: list[int]) -> list[int]:
    """A job for each host that is down; their last contact failed, as it had in a herd that is looked after."""
    for host in down:
        note_failure(host, "Nothing answers on its SSH port.")
    return [ask("host_facts", host) for host in down]


def run(folder: Path, quick: bool) -> list[Result]:
    """One line."""
    rounds, samples = (1, 5) if quick else (5, 15)
    migrate()
    calm, busy = [], []
    with worker(folder), machines(folder, 1) as there, blackhole() as hole:
        up, server = there.hosts[0].pk, there.servers[0]
        ports = [hole if number % 2 else closed_port() for number in range(DOWN)]
        down = [add(f"down{number}", port, there.key, server).pk for number, port in enumerate(ports)]
        start(up)
        for _ in range(rounds):
            calm.append(median(start(up) for _ in range(samples)))
            waiting = wait_for_all(down)
            busy.append(median(start(up) for _ in range(samples)))
            cancel_pending(waiting)
    note = "half of them refuse the connection, half never answer; with login, request to running, 2 slots"
    return [Result("start while 100 hosts are down", median(busy), "ms", AIM, median(calm), rounds, note)]
