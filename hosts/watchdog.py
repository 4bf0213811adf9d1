"""Notices a connection on which nothing comes back any more."""

import threading
from collections.abc import Callable


class Watchdog:
    """Calls ``ask`` every ``every`` seconds, and ``give_up`` once when none of ``probes`` in a row was answered in
    time.

    ``ask`` returns True for an answer and may block. Therefore two threads: the one that asks can hang when the host
    takes no more bytes, and the other must still be able to give up.
    """

    def __init__(self, ask: Callable[[], bool], give_up: Callable[[], None], every: float, probes: int) -> None:
        self._ask, self._give_up = ask, give_up
        self._every, self._patience = every, every * probes
        self._answered, self._over = threading.Event(), threading.Event()
        for work in (self._keep_asking, self._judge):
            threading.Thread(target=work, name=f"watchdog{work.__name__}", daemon=True).start()

    def stop(self) -> None:
        """Ask no more and do not give up; safe to call twice."""
        self._over.set()
        self._answered.set()

    def _keep_asking(self) -> None:
        while not self._over.wait(self._every):
            if self._ask():
                self._answered.set()

    def _judge(self) -> None:
        while self._answered.wait(self._patience):
            self._answered.clear()
            if self._over.is_set():
                return
        if not self._over.is_set():
            self._give_up()
