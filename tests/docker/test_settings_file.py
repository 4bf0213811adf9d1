""".env.example names every variable that the code and compose.yml read, with the default that is in force."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.docker.test_compose_file import DOCKER, FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLONE = DOCKER.parent
READERS = {"text", "flag", "number", "words", "zone", "log_level"}
# What the surroundings say, not the owner; what only tests and `make install` use.
NOT_SETTINGS = {
    *("HOME", "PATH", "SUDO_USER", "SSH_CONNECTION", "DJANGO_SETTINGS_MODULE"),
    *("PIHERDER_TEST_KINDS", "PIHERDER_ENV_FILE"),
}
# Computed by the code from another setting.
COMPUTED = {"PIHERDER_SILENCE_SEC": "20"}


def calls(path: Path) -> Iterator[tuple[str, str, ast.expr | None]]:
    """Reader, variable and default of every call that reads the environment."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(getattr(node.func, "value", None), "id", "")
        if name in READERS and (owner == "env" or path.name == "env.py"):
            given = node.args[1] if len(node.args) > 1 else None
            yield name, str(node.args[0].value), given


def written(reader: str, default: ast.expr | None) -> str | None:
    """A default as a settings file shows it; None for one that the code computes."""
    if default is None:
        return "no" if reader == "flag" else ""
    if not isinstance(default, ast.Constant):
        return None
    return ("yes" if default.value else "no") if reader == "flag" else str(default.value)


def read_by_the_code() -> dict[str, set[str]]:
    """Each variable with the defaults that are written in the code; computed ones are left out."""
    found: dict[str, set[str]] = {}
    for app in ("piherder", "stacks", "hosts", "jobs"):
        for path in (CLONE / app).rglob("*.py"):
            for reader, name, default in calls(path):
                known = written(reader, default)
                found.setdefault(name, set()).update([] if known is None else [known])
    return {name: values for name, values in found.items() if name not in NOT_SETTINGS}


def read_by_compose() -> dict[str, str]:
    """Each variable of compose.yml with its default, "" where it has none."""
    text = (DOCKER / "compose.yml").read_text()
    return {name: default or "" for name, default in re.findall(r"\$\{(\w+)(?::[-?]([^${}]*))?\}", text)}


def shown() -> dict[str, str]:
    """Variables of .env.example with what stands behind them, commented out or not."""
    text = (DOCKER / ".env.example").read_text()
    return dict(re.findall(r"^(?:# )?([A-Z][A-Z_]+)=(.*)$", text, re.MULTILINE))


CODE, COMPOSE, SHOWN = read_by_the_code(), read_by_compose(), shown()
SET_BY_COMPOSE: dict[str, str] = FILE["services"]["web"]["environment"]


def test_the_code_was_read() -> None:
    assert {"DATABASE_URL", "PIHERDER_BEAT_SEC", "PIHERDER_MASTER_KEYS", "TZ"} <= set(CODE)


def test_every_variable_is_shown_and_no_other() -> None:
    assert set(SHOWN) == set(CODE) | set(COMPOSE) | {"DATABASE_URL", "REDIS_URL"}


@pytest.mark.parametrize("name", sorted(set(CODE) - set(SET_BY_COMPOSE) - {"PIHERDER_CONTAINER"}))
def test_a_default_is_the_one_in_the_code(name: str) -> None:
    assert (CODE[name] - {""} or {COMPUTED.get(name, "")}) == {SHOWN[name]}


@pytest.mark.parametrize("name", sorted(set(COMPOSE) - set(SET_BY_COMPOSE) - {"POSTGRES_PASSWORD"}))
def test_a_default_is_the_one_in_the_compose_file(name: str) -> None:
    assert COMPOSE[name] == SHOWN[name]


@pytest.mark.parametrize("name", sorted(set(SET_BY_COMPOSE) - {"DATABASE_URL", "REDIS_URL"}))
def test_what_compose_sets_is_shown_as_it_sets_it(name: str) -> None:
    assert SET_BY_COMPOSE[name] == SHOWN[name]


def test_the_image_and_the_compose_file_set_the_same() -> None:
    image = dict(re.findall(r"\b(PIHERDER_[A-Z]+)=(\S+)", (DOCKER / "Dockerfile").read_text()))
    same = {name: value for name, value in SET_BY_COMPOSE.items() if name.startswith("PIHERDER_")}
    assert {name: image.get(name) for name in same} == same
