"""`healthcheck`: does one program of this machine do its work?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from jobs.management.door import SUCCEEDED, DoorCommand
from piherder import health
from piherder.house import serve

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable


def web() -> str:
    """Asks the page at the address where `serve web` listens."""
    options = serve.options()
    host = f"[{options.own_address}]" if ":" in options.own_address else options.own_address
    return health.ask_web(f"http://{host}:{options.port}/health/")


ASK: dict[str, Callable[[], str]] = {"web": web, "worker": health.ask_worker, "beat": health.ask_beat}


class Command(DoorCommand):
    """Ask one program of this machine; exit code 0 with one sentence when it works, 1 with one on stderr otherwise."""

    help = "Ask web, worker or beat of this machine whether it works; heartbeats are watched for up to 15 s."
    troubles: ClassVar[tuple[type[Exception], ...]] = (health.Unwell,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which program."""
        parser.add_argument("part", choices=sorted(ASK))

    def work(self, **options: Any) -> int:
        """Ask, and say what was seen."""
        self.stdout.write(ASK[options["part"]]())
        return SUCCEEDED
