"""A file of settings as systemd's EnvironmentFile= reads it (systemd.exec(5)): one `NAME=value` a line, no shell.

Standard library only: the set-up reads such a file before any package is installed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%?=&,+~\[\]-]*")


def parse(text: str) -> dict[str, str]:
    """The variables of a file; comments (# or ;), blank lines and what is no assignment are passed over.

    A value may be quoted; outside quotes a backslash makes the next character literal. A value ends with its line.
    """
    return {found[1]: value_of(found[2]) for found in map(_LINE.fullmatch, text.splitlines()) if found}


def value_of(text: str) -> str:
    """The value that stands behind the `=`."""
    value, rest = "", text.strip()
    while match := _QUOTED.match(rest):
        value += match[1] if match[1] is not None else re.sub(r'\\(["\\`$])', r"\1", match[2])
        rest = rest[match.end() :].lstrip()
    return value + re.sub(r"\\(.)", r"\1", rest)


def quoted(value: str) -> str:
    """A value so that `parse`, systemd and a shell read it alike. Raises ValueError for a line break."""
    if "\n" in value or "\r" in value:
        raise ValueError("A setting is one line.")
    return value if _PLAIN.fullmatch(value) else '"' + re.sub(r'(["\\`$])', r"\\\1", value) + '"'


def with_values(text: str, changes: Mapping[str, str]) -> str:
    """The text with each variable of `changes` set where it stood, else at the end; other lines stay as they are."""
    left, lines = dict(changes), []
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found and found[1] in changes:
            left.pop(found[1], None)
            line = f"{found[1]}={quoted(changes[found[1]])}"
        lines.append(line)
    return "".join(f"{line}\n" for line in [*lines, *(f"{name}={quoted(value)}" for name, value in left.items())])
