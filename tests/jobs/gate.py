"""A gate to hosts that do not exist; it refuses what the real one refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.utils import timezone

from hosts.models import Host
from jobs.models import Failure
from jobs.registry import HostDown, HostRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime


@dataclass
class FakeSession:
    """A connection that counts how often it was closed."""

    closed: int = 0
    secrets: tuple[str, ...] = ()

    def close(self) -> None:
        """Once is right."""
        self.closed += 1


@dataclass
class FakeGate:
    """Hosts are rows; which of them answer is up to the test. A host that was removed is refused, as in production."""

    down: set[int] = field(default_factory=set)
    mute: set[int] = field(default_factory=set)  # the port answers, the login does not end
    refuses: dict[int, Failure] = field(default_factory=dict)
    broken: bool = False
    sessions: list[FakeSession] = field(default_factory=list)
    probed: list[int] = field(default_factory=list)
    before_open: Callable[[int], None] = lambda host_id: None

    def port_answers(self, host_ids: Sequence[int]) -> dict[int, bool]:
        """All but those that are down."""
        self.probed += host_ids
        return {pk: pk not in self.down for pk in host_ids}

    def open(self, host_id: int, check: Callable[[], None]) -> FakeSession:
        """A login writes `last_seen`, as in production."""
        check()
        self.before_open(host_id)
        if self.broken:
            raise KeyError("a fault of ours")
        if host_id in self.down | self.mute:
            raise HostDown("The host does not answer.")
        if host_id in self.refuses:
            raise HostRefused("The host refuses the key.", self.refuses[host_id])
        if not Host.herd.filter(pk=host_id).update(last_seen=timezone.now(), last_error_at=None):
            raise HostRefused("The host was removed.", Failure.REFUSED)
        self.sessions.append(FakeSession())
        return self.sessions[-1]

    def paused(self, host_id: int) -> str:
        """In the words of the row."""
        host = Host.objects.get(pk=host_id)
        return f"{host.name} is paused: {host.pause_reason}." if host.paused() else ""

    def looks_down(self, host_id: int) -> bool:
        """The last contact failed."""
        return Host.objects.filter(pk=host_id, last_error_at__isnull=False).exists()

    def herd(self) -> dict[int, str]:
        """All but the removed ones."""
        return dict(Host.herd.values_list("pk", "name"))

    def seen_since(self, host_id: int, moment: datetime) -> bool:
        """By the row."""
        return Host.objects.filter(pk=host_id, last_seen__gt=moment).exists()

    @property
    def all_closed(self) -> bool:
        """Every connection was closed, once."""
        return [session.closed for session in self.sessions] == [1] * len(self.sessions)
