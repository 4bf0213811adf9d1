"""Text that came from outside, in a form that every database, terminal and page can hold."""

from __future__ import annotations


def storable(text: str) -> str:
    """`text` without NUL, which PostgreSQL refuses, and with lone surrogates (bytes that are no UTF-8) escaped."""
    return text.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """`text` storable and without line breaks."""
    return storable(text).replace("\n", "\\n").replace("\r", "\\r")
