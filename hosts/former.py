"""The installations that this one was restored from: what they marked on backup disks is ours."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from hosts.store.root import write_durably

FILE = "install.former"


def former_ids() -> frozenset[str]:
    """Their ids. Raises OSError."""
    try:
        return frozenset(_path().read_text(encoding="utf-8", errors="replace").split())
    except FileNotFoundError:
        return frozenset()


def note_former(install_id: str) -> Path:
    """Add one; returns the file. Raises OSError."""
    write_durably(_path(), "".join(f"{each}\n" for each in sorted({*former_ids(), install_id})).encode())
    return _path()


def _path() -> Path:
    return Path(settings.DATA) / FILE
