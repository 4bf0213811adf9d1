"""A job that is only played."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Played:
    """A job; `at` is called at the beginning of each step."""

    at: Callable[[str], None] = lambda _name: None
    steps: list[str] = field(default_factory=list)

    def step(self, name: str) -> None:
        self.steps.append(name)
        self.at(name)

    def check_cancel(self) -> None:
        """Nobody cancels."""

    def log(self, line: str) -> None:
        """Nobody reads."""
