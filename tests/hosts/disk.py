"""Backup disks for tests, filled as a backup fills them but without rows."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

from hosts.models import BackupRoot
from hosts.store import layout
from hosts.store.paths import decode_name
from hosts.store.root import MARKER, create_marker, write_durably

START = datetime(2026, 11, 1, 2, 15, tzinfo=UTC)


def make_root(path: Path, **fields: Any) -> BackupRoot:
    """A marked backup root with its row."""
    path.mkdir()
    row = BackupRoot.objects.create(path=str(path), **fields)
    create_marker(path, settings.PIHERDER_INSTALL_ID, row.marker.hex)
    return row


def give_away(path: Path) -> None:
    """Mark a root as another installation's."""
    raw = json.dumps({"format": 1, "install_id": "another", "root_id": uuid.uuid4().hex})
    write_durably(path / MARKER, raw.encode())


def info(host: str, source: str, sequence: int, **fields: Any) -> layout.GenerationInfo:
    """What a backup notes of the generation that it began `sequence` days after the first."""
    began = START + timedelta(days=sequence)
    install = settings.PIHERDER_INSTALL_ID
    blank = layout.GenerationInfo(host, source, sequence, began, began + timedelta(minutes=3), install, "17")
    return replace(blank, **fields)


def lay(root: Path | str, host: str, source: str, sequence: int = 1, folder: str = "", **fields: Any) -> Path:
    """A published generation with one file; returns its folder."""
    place = Path(root) / host / (folder or layout.source_folder_name(decode_name(source)))
    place.mkdir(parents=True, exist_ok=True)
    partial = layout.take_over(place, "lay")
    (partial.tree / "one").write_bytes(b"one")
    sealed, _ = layout.seal(partial, info(host, source, sequence, **fields), {}, None)
    return layout.publish(partial, place / sealed.folder_name)


def rewrite(generation: Path, **changes: Any) -> None:
    """Change what generation.json says, whatever it is then."""
    record = generation / layout.INFO
    record.write_text(json.dumps(json.loads(record.read_text()) | changes))


def listing(root: Path | str) -> list[str]:
    """Every path below a root, but for locks."""
    top = Path(root)
    return sorted(str(path.relative_to(top)) for path in top.rglob("*") if not path.name.endswith(".lock"))
