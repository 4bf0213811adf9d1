"""The kinds that go through the matrix, each with a long and a brief request. A later kind is one more entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.models import Job
    from tests.faults.herd import Herd


@dataclass(frozen=True, slots=True)
class Matter:
    """One kind. `long` goes on until it is stopped, `brief` is done at once."""

    kind: str
    needs_host: bool = False
    long: dict[str, Any] = field(default_factory=lambda: {"seconds": 60, "lines": 1})
    brief: dict[str, Any] = field(default_factory=lambda: {"seconds": 0.2})

    def ask(self, herd: Herd, **params: Any) -> Job:
        """Request it, brief unless `params` say otherwise."""
        host = herd.host() if self.needs_host else None
        return herd.ask(self.kind, host, **{**self.brief, **params})

    def working(self, herd: Herd, **params: Any) -> Job:
        """A long one whose work goes on."""
        return herd.works(self.ask(herd, **{**self.long, **params}))


SLEEP = Matter("sleep")
COPY = Matter("copy", needs_host=True)
OTHER_COPY = Matter("other_copy", needs_host=True)
SHOUT = Matter("shout", long={"size": 2**20}, brief={"size": 10})
MATRIX = (SLEEP, COPY)
ALL = {matter.kind: matter for matter in (SLEEP, COPY, OTHER_COPY, SHOUT)}
