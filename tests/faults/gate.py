"""A way to hosts that are files: a host is down while the file `down-<id>` exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.registry import HostDown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path


class NoSession:
    """A connection to nothing."""

    secrets: tuple[str, ...] = ()

    def close(self) -> None:
        """Nothing to end."""


@dataclass(frozen=True, slots=True)
class FileGate:
    """See `jobs.registry.HostGate`."""

    folder: Path

    def _down(self, host_id: int) -> bool:
        return (self.folder / f"down-{host_id}").exists()

    def port_answers(self, host_ids: Sequence[int]) -> dict[int, bool]:
        """Which hosts are up."""
        return {pk: not self._down(pk) for pk in host_ids}

    def open(self, host_id: int, check: Callable[[], None]) -> NoSession:
        """Log in. Raises HostDown."""
        if self._down(host_id):
            raise HostDown("The host does not answer.")
        return NoSession()

    def paused(self, host_id: int) -> str:
        """Never."""
        return ""

    def looks_down(self, host_id: int) -> bool:
        """What the last contact showed: the same as the next."""
        return self._down(host_id)

    def herd(self) -> dict[int, str]:
        """All hosts."""
        from hosts.models import Host

        return dict(Host.objects.values_list("pk", "name"))

    def seen_since(self, host_id: int, moment: datetime) -> bool:
        """True while it is up."""
        return not self._down(host_id)
