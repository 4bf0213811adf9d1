"""Rules of the code base that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.management import get_commands

from jobs import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE = Path(__file__).resolve().parents[1]
TRACKED = subprocess.run(["git", "ls-files"], cwd=CLONE, capture_output=True, text=True, check=True).stdout.split()
APPS = ("piherder", "stacks", "hosts", "jobs")
PRODUCT = [CLONE / name for name in TRACKED if name.endswith(".py") and name.split("/")[0] in APPS]
OUR_COMMANDS = sorted(name for name, app in get_commands().items() if app in APPS)


def attributes(path: Path) -> Iterator[str]:
    """Dotted names used in a file, as `module.attribute`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def test_only_env_reads_the_environment() -> None:
    readers = {path.name for path in PRODUCT if {"os.environ", "os.getenv", "os.putenv"} & set(attributes(path))}
    assert readers == {"env.py"}


def test_no_exit_code_is_thrown_away() -> None:
    texts = [path for path in PRODUCT if "|| true" in path.read_text()]
    assert texts == []


def test_no_shell_is_started_here() -> None:
    assert [path for path in PRODUCT if re.search(r"shell=True|os\.system\(", path.read_text())] == []


@pytest.mark.parametrize("family", registry.kinds(), ids=lambda family: family.kind)
def test_every_family_says_what_it_does(family: registry.Family) -> None:
    cls = type(family)
    assert (cls.__doc__, cls.run.__doc__) != (None, None)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", family.kind)
    assert family.label[0].isupper()


@pytest.mark.parametrize("name", OUR_COMMANDS)
def test_every_command_is_tested_and_explains_itself(name: str) -> None:
    tests = "\n".join(path.read_text() for path in CLONE.glob("tests/**/test_*.py"))
    assert f'"{name}"' in tests or f"'{name}'" in tests or f"{name} " in tests
    assert any(f"/management/commands/{name}.py" in tracked for tracked in TRACKED)


def test_every_dependency_has_its_reason() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (CLONE / name).read_text().splitlines():
            bare = not line or line.startswith(("#", "-r"))
            assert bare or re.fullmatch(r"[A-Za-z0-9_.\[\]-]+(~=|>=|<|,|[0-9.])+\s+# \S.+", line), line


def test_public_functions_have_a_docstring() -> None:
    missing = [
        f"{path.relative_to(CLONE)}:{node.name}"
        for path in PRODUCT
        if "migrations" not in path.parts
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        if ast.get_docstring(node) is None
    ]
    assert missing == []
