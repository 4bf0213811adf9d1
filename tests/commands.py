"""Management commands as a shell runs them, with their exit code, without a process for each."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

from django.core.management import get_commands, load_command_class
from django.core.management.base import OutputWrapper

from jobs.management.door import DoorCommand


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The lines of a table, split into words."""
        return [line.split() for line in self.out.splitlines()]


def command(name: str) -> tuple[DoorCommand, io.StringIO, io.StringIO]:
    """A command with its two outputs."""
    app = get_commands()[name]
    assert isinstance(app, str)
    found = load_command_class(app, name)
    assert isinstance(found, DoorCommand)
    out, err = io.StringIO(), io.StringIO()
    found.stdout, found.stderr = OutputWrapper(out), OutputWrapper(err)
    return found, out, err


def herder(name: str, *words: str) -> Ran:
    """`./herder NAME WORDS…`."""
    found, out, err = command(name)
    code = found.exit_code(["manage.py", name, *words])
    return Ran(code, out.getvalue(), err.getvalue())


def refused(name: str, *words: str) -> str:
    """The one sentence with which wrong use (exit code 2) is refused; nothing is on standard output."""
    ran = herder(name, *words)
    assert (ran.code, ran.out) == (2, ""), ran
    assert ran.err.count("\n") == 1
    return ran.err.strip()
