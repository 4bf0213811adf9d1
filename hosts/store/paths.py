"""Which paths may be backed up or restored to, and how names of any bytes are written as text."""

from __future__ import annotations

import os
import re
from pathlib import Path

DENIED_TREES = (
    "/proc", "/sys", "/dev", "/run", "/boot", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr",
    "/var/run", "/var/lock", "/lost+found",
)  # fmt: skip
"""Folders the operating system owns: an image or a package brings them back, a copy of them over a live system breaks
it.
"""
ALLOWED_TREES = ("/usr/local",)
"""Folders inside a denied one that hold the administrator's own files (FHS 3.0, section 4.9)."""

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_PATTERN = re.compile(r"[*?\[]")


class StoreError(Exception):
    """Something about the backup store that a person must know; the text is one plain sentence."""


class PathRefused(StoreError):
    """A path that must not be read or written; the text is one plain sentence."""


def to_bytes(path: str | bytes) -> bytes:
    """The bytes of a path that came as text (undecodable bytes as surrogates) or as bytes."""
    return path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")


def to_text(path: str | bytes) -> str:
    """The text of a path, undecodable bytes as surrogates; for Python's file functions, not for people or databases."""
    return path if isinstance(path, str) else path.decode("utf-8", "surrogateescape")


def encode_name(name: str | bytes) -> str:
    """A name of any bytes as printable UTF-8 text on one line, reversible with `decode_name`.

    `%`, control characters, line separators and bytes that are not UTF-8 become `%XX`; everything else stays readable.
    """
    text = to_text(name)
    if text.isprintable() and "%" not in text:
        return text
    return "".join(ch if ch.isprintable() and ch != "%" else _percent(ch) for ch in text)


def _percent(ch: str) -> str:
    return "".join(f"%{byte:02X}" for byte in to_bytes(ch))


def decode_name(text: str) -> bytes:
    """The bytes that `encode_name` wrote. Text that a person typed without any escape passes unchanged."""
    if "%" not in text:
        return to_bytes(text)
    parts = _ESCAPE.split(text)
    raw = [bytes([int(part, 16)]) if index % 2 else to_bytes(part) for index, part in enumerate(parts)]
    return b"".join(raw)


def normalise(path: str | bytes) -> str:
    """An absolute path without doubled or trailing slashes and without `.` parts.

    Raises PathRefused for an empty, blank or relative path, a `..` part or a NUL byte.
    """
    text = to_text(path)
    if not text.strip():
        raise PathRefused("The path is empty; give an absolute path such as /srv/data.")
    if "\0" in text:
        raise PathRefused(f"The path {encode_name(text)} contains a NUL byte; no file can be named so.")
    if not text.startswith("/"):
        raise PathRefused(f"The path {encode_name(text)} is not absolute; start it with a slash.")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathRefused(f"The path {encode_name(text)} contains '..'; write the path without it.")
    return "/" + "/".join(parts)


def check_source(path: str | bytes, *, allow_system: bool = False) -> str:
    """The normalised path of a folder to back up; whether it is one only its host knows, see `hosts.examine`.

    `allow_system` is the person's explicit wish to back up a folder of the operating system.
    Raises PathRefused also for patterns, control characters and a blank at the end, which are slips in a form.
    """
    text = normalise(path)
    shown = encode_name(text)
    if _PATTERN.search(text):
        raise PathRefused(f"The source {shown} is a pattern; name one folder and put patterns into its excludes.")
    if any(ord(ch) < 32 or ord(ch) == 127 for ch in text):
        raise PathRefused(f"The source {shown} contains a control character; remove it.")
    if text != text.rstrip():
        raise PathRefused(f"The source '{shown}' ends with a blank; remove it.")
    if not allow_system:
        _refuse_system(text, "backed up")
    return text


def check_target(path: str | bytes, *, allow_system: bool = False) -> str:
    """The normalised path of a place to restore to. Raises PathRefused; names with patterns or newlines are real names
    here.
    """
    text = normalise(path)
    if not allow_system:
        _refuse_system(text, "written by a restore")
    return text


def is_system(path: str) -> bool:
    """Whether a normalised path is `/` or lies in a folder the operating system owns."""
    if path == "/":
        return True
    return _beneath(path, DENIED_TREES) and not _beneath(path, ALLOWED_TREES)


def _beneath(path: str, trees: tuple[str, ...]) -> bool:
    return any(path == tree or path.startswith(tree + "/") for tree in trees)


def _refuse_system(path: str, verb: str) -> None:
    if is_system(path):
        raise PathRefused(
            f"{encode_name(path)} belongs to the operating system and is not {verb} unless it is allowed explicitly."
        )


def inside(root: Path, path: Path) -> bool:
    """Whether `path` lies beneath `root` (not `root` itself) once every link and `..` of both is resolved."""
    top, real = os.path.realpath(root), os.path.realpath(path)
    return real != top and os.path.commonpath((top, real)) == top


def require_inside(root: Path, path: Path) -> Path:
    """The resolved path. Raises PathRefused when it is not beneath `root`."""
    if not inside(root, path):
        raise PathRefused(
            f"{encode_name(os.fspath(path))} is not inside {encode_name(os.fspath(root))}; nothing was touched."
        )
    return Path(os.path.realpath(path))


def relative_parts(name: str | bytes) -> tuple[bytes, ...]:
    """The parts of a name inside a generation (`.` or empty is its top). Raises PathRefused if it leads outside."""
    raw = to_bytes(name)
    if raw in (b"", b"."):
        return ()
    parts = tuple(raw.split(b"/"))
    if b"\0" in raw or any(part in (b"", b".", b"..") for part in parts):
        raise PathRefused(f"{encode_name(raw)} is not a name inside a generation.")
    return parts
