"""The settings file: read as systemd reads it, written so that everybody reads it alike, and never rewritten."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from piherder import env, envfile

if TYPE_CHECKING:
    from pathlib import Path

# What systemd makes of each line; tests/lab/test_install.py asks one.
LINES = {
    "A=plain": "plain",
    "A=two words": "two words",
    "  A = spaced  ": "spaced",
    'A="quoted words "': "quoted words ",
    "A='single $ \\ quoted'": "single $ \\ quoted",
    'A="a \\"b\\" \\$c \\`d\\` \\\\e"': 'a "b" $c `d` \\e',
    'A="kept \\n"': "kept \\n",
    "A=back\\slash": "backslash",
    "A=not # a comment": "not # a comment",
    'A=it"s': 'it"s',
    "A='one'\"two\"": "onetwo",
    "A=": "",
    "A=postgresql:///p?host=/run&x=%2F": "postgresql:///p?host=/run&x=%2F",
}


@pytest.mark.parametrize(("line", "value"), LINES.items())
def test_reads_a_line_as_systemd_does(line: str, value: str) -> None:
    assert envfile.parse(line) == {"A": value}


@pytest.mark.parametrize("line", ["# A=1", "; A=1", "", "export A=1", "1A=1", "no assignment"])
def test_passes_over_what_is_no_setting(line: str) -> None:
    assert envfile.parse(f"{line}\nB=2\n") == {"B": "2"}


def test_the_last_line_of_a_name_counts() -> None:
    assert envfile.parse("A=1\nA=2\n") == {"A": "2"}


@pytest.mark.parametrize("value", ["", "a", "two words", 'q"u\\o`t$e', "it's", "#no comment", " edge ", "é", "a;b|c&d"])
def test_what_is_written_is_read_back_by_us_and_by_a_shell(value: str) -> None:
    line = f"A={envfile.quoted(value)}"
    assert envfile.parse(line) == {"A": value}
    shell = subprocess.run(["sh", "-c", f'{line}\nprintf %s "$A"'], capture_output=True, text=True)
    assert shell.stdout == value


def test_a_setting_is_one_line() -> None:
    with pytest.raises(ValueError, match="one line"):
        envfile.quoted("a\nB=evil")


def test_a_change_touches_its_own_line_alone() -> None:
    text = "# mine\nA=1\n\n#B=old\n  B = 2  \nC='x'\n"
    assert envfile.with_values(text, {"B": "3 4", "D": "5"}) == "# mine\nA=1\n\n#B=old\nB=\"3 4\"\nC='x'\nD=5\n"


def test_no_change_is_no_change() -> None:
    assert envfile.with_values("A = 1\n; x\n", {}) == "A = 1\n; x\n"


def test_the_file_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "piherder.env"
    path.write_text("PIHERDER_NODE=from-file\n")
    monkeypatch.setenv("PIHERDER_NODE", "from-shell")
    monkeypatch.setenv("PIHERDER_ENV_FILE", str(path))
    env.use_file()
    assert env.text("PIHERDER_NODE") == "from-file"


def test_without_a_file_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIHERDER_ENV_FILE", raising=False)
    monkeypatch.setenv("PIHERDER_NODE", "from-shell")
    env.use_file()
    assert env.text("PIHERDER_NODE") == "from-shell"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIHERDER_ENV_FILE", str(tmp_path / "none"))
    with pytest.raises(env.BadEnvironment, match=r"none cannot be read: No such file"):
        env.use_file()


def test_a_file_in_another_encoding_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "latin").write_bytes(b"A=\xe9\n")
    monkeypatch.setenv("PIHERDER_ENV_FILE", str(tmp_path / "latin"))
    with pytest.raises(env.BadEnvironment, match="it is no UTF-8 text"):
        env.use_file()
