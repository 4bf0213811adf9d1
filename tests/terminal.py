"""A person at a terminal who types what a test says."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class Tty(io.StringIO):
    """Text that claims to be a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def types(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A person sits in front of the command and types `text`; an empty one is the end of input (Ctrl-D)."""
    monkeypatch.setattr(sys, "stdin", Tty(text))
    monkeypatch.setattr(sys, "stderr", Tty())


def pipes(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Standard input is a pipe that holds `text`."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
