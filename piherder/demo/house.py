"""The embedded installation of a demonstration, looked after by a thread of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from piherder.house import run, stack
from piherder.house.folder import read_state
from piherder.house.supervisor import NotReady

if TYPE_CHECKING:
    from collections.abc import Callable

    from piherder.house.servers import PrivateRedis

START_SECONDS = 90.0
STOP_SECONDS = 60.0


class House:
    """Starts, supervises and ends the stack in one thread, because the kernel ends the programs with their thread."""

    def __init__(self, options: stack.Options, redis: PrivateRedis, say: Callable[[str], None]) -> None:
        self.options, self.redis = options, redis
        self.password = ""
        self.supervisor = stack.supervisor(options, redis, say)
        self._failure: Exception | None = None
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._live, name="house", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def _live(self) -> None:
        try:
            self.password = run.prepare_database(stack.environment(self.options, self.redis.url))
            self.supervisor.start()
            self.supervisor.announce(self.address)
        except Exception as failure:
            self._failure = failure
            self.supervisor.stop_soon()
        self._up.set()
        self.supervisor.run()

    @property
    def address(self) -> str:
        """Where the pages are."""
        return f"http://{self.options.socket_address}/"

    def wait(self) -> None:
        """Return when every program is up. Raises what kept them from starting, in words."""
        if not self._up.wait(START_SECONDS):
            raise NotReady(f"The stack was not up after {START_SECONDS:.0f} s.")
        if self._failure:
            raise self._failure

    def pid(self, name: str) -> int:
        """Process id of a program now; 0 while it is down."""
        state = read_state(self.options.data)
        return state.programs.get(name, 0) if state else 0

    def stop(self) -> None:
        """End every program; safe to call twice, and a second call cuts the grace short."""
        self.supervisor.stop_soon()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self.redis.close()
