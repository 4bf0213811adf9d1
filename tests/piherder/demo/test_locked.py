"""Root with a locked password, as on a fresh Ubuntu: sshd refuses its keys unless PAM is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from piherder.demo.sshd import Sshd, locked_in

if TYPE_CHECKING:
    from pathlib import Path

SHADOW = "root:!:19000:0:99999:7:::\npi:$y$j9T$x:19000::::::\nnobody:*:19000::::::\nodd\nlp:!$y$old:1::::::\n"


@pytest.mark.parametrize(
    ("user", "locked"),
    [("root", True), ("pi", False), ("nobody", False), ("lp", True), ("gone", False)],
)
def test_an_exclamation_mark_locks(user: str, locked: bool) -> None:
    assert locked_in(SHADOW, user) is locked


def test_the_server_says_once_whether_it_asks_pam(tmp_path: Path) -> None:
    server = Sshd(tmp_path / "host", "demo")
    lines = [line for line in server._config_lines() if line.startswith("UsePAM")]
    assert lines in (["UsePAM yes"], ["UsePAM no"])
