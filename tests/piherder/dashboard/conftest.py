"""What every test of the first page gets."""

from __future__ import annotations

import pytest

from tests.piherder.dashboard.rows import quiet


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet(monkeypatch)
