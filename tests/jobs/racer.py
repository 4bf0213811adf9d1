"""Many real processes that ask for lanes at the same moment, round after round: `python -m tests.jobs.racer`.

Forks before any connection is open, in a process without threads. Prints one JSON document: how the answers fell, and
every rule that was seen broken.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections import Counter
from typing import TYPE_CHECKING

import django

django.setup()

from django.db import connection  # noqa: E402  # models need the apps
from django.db.models import Count  # noqa: E402
from django.utils import timezone  # noqa: E402

from jobs import registry  # noqa: E402
from jobs.admission import Busy, Draft, Unavailable, admit  # noqa: E402
from jobs.models import ACTIVE, Job, Lane, Status  # noqa: E402
from tests.jobs.gate import FakeGate  # noqa: E402
from tests.jobs.kinds import installed  # noqa: E402

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

KINDS = ("work", "copy", "wide", "look", "bring")
PATIENCE = 60  # seconds that a process waits for the others


def ask(number: int, hosts: list[int], turn: int) -> str:
    """One request: "inserted", "attached", "busy" or "unavailable"."""
    family = registry.get(KINDS[(number + turn) % len(KINDS)])
    host, peer = (hosts if turn % 2 else hosts[::-1])[:2]
    both = peer if family.kind == "bring" else None
    draft = Draft(family, host, {"tag": str(number % 3)}, peer_host_id=both, lanes=family.lanes)
    try:
        return "attached" if admit(draft)[1] else "inserted"
    except Busy:
        return "busy"
    except Unavailable:
        return "unavailable"


def broken_rules(turn: int) -> list[str]:
    """What must never be: two active jobs of a kind on a host, a lane held twice or by none, a job without lanes."""
    active = Job.objects.filter(status__in=ACTIVE)
    twice = active.values("host", "kind").annotate(n=Count("id")).filter(n__gt=1).count()
    stray = Lane.objects.exclude(job__status__in=ACTIVE).count()
    held = Lane.objects.values("host", "name").annotate(n=Count("id")).filter(n__gt=1).count()
    bare = active.filter(lanes__isnull=True).count()
    empty = 0 if active.exists() else 1
    found = {"twice": twice, "stray": stray, "held twice": held, "bare": bare, "nobody came in": empty}
    return [f"round {turn}: {name}" for name, count in found.items() if count]


def clear() -> None:
    """All jobs end."""
    Lane.objects.all().delete()
    Job.objects.filter(status__in=ACTIVE).update(status=Status.SUCCEEDED, finished_at=timezone.now())


def race(number: int, rounds: int, hosts: list[int], gate: Barrier, answers: Queue[tuple[str, list[str]]]) -> None:
    """One process's part."""
    registry.install_gate(FakeGate())
    registry._families.update(installed())
    for turn in range(rounds):
        gate.wait(PATIENCE)
        answer = ask(number, hosts, turn)
        gate.wait(PATIENCE)
        broken = broken_rules(turn) if number == 0 else []
        if number == 0:
            clear()
        answers.put((answer, broken))
    connection.close()


def main(processes: int, rounds: int, hosts: list[int]) -> None:
    """Run the race and print what came of it."""
    context = multiprocessing.get_context("fork")
    gate, answers = context.Barrier(processes), context.Queue()
    racers = [context.Process(target=race, args=(n, rounds, hosts, gate, answers)) for n in range(processes)]
    for racer in racers:
        racer.start()
    got = [answers.get(timeout=2 * PATIENCE) for _ in range(processes * rounds)]
    for racer in racers:
        racer.join(PATIENCE)
    counts = Counter(answer for answer, _ in got)
    print(json.dumps({"answers": counts, "broken": [rule for _, broken in got for rule in broken]}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [int(word) for word in sys.argv[3:]])
