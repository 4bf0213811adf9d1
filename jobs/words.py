"""Text that came from outside, in a form that every database, terminal and page can hold."""

from __future__ import annotations

import re

# All that moves a cursor, starts a colour or breaks a line somewhere; a tab does no harm.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_NAMES = {"\n": "\\n", "\r": "\\r"}


def storable(text: str) -> str:
    """`text` without NUL, which PostgreSQL refuses, and with lone surrogates (bytes that are no UTF-8) escaped."""
    return text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """`text` storable, without line breaks and without the control characters that a terminal would obey."""
    return _CONTROL.sub(_shown, storable(text))


def _shown(found: re.Match[str]) -> str:
    return _NAMES.get(found[0], found[0].encode("unicode_escape").decode("ascii"))
