"""What every test of the first page gets."""

from __future__ import annotations

import pytest

from jobs import hints


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told of new jobs."""
    monkeypatch.setattr(hints, "_publishers", [])
