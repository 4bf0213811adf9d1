"""Whether a generation on a backup disk is what its record says, before anything of it reaches the database."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from hosts.store.layout import INFO, MANIFEST, TREE, LayoutError
from hosts.store.manifest import read_manifest
from hosts.store.paths import StoreError, decode_name, encode_name, normalise

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.store.layout import GenerationInfo, StoredGeneration

_SURROGATE = re.compile(r"[\ud800-\udfff]")
SMALL, BIG = (1 << 31) - 1, (1 << 63) - 1  # what the database's columns hold
WHOLE = {"sequence": SMALL, "rsync_code": SMALL, "files": BIG, "bytes": BIG, "changed": BIG}
LONGEST = 1000  # characters of a source's path
MANY = 1000  # warnings, or keys of the host, of one generation


def unsound(found: StoredGeneration, host: str) -> str:
    """Why a folder cannot be attached to a host, as one sentence; "" when it can.

    The manifest is opened, not read to its end: whether every file is still there is what a verification proves.
    """
    try:
        if found.info is None:
            return found.problem
        _require_values(found.info)
        _require_place(found.info, found.path, host)
        _require_content(found.path)
    except (StoreError, OSError) as trouble:
        return str(trouble)
    return ""


def _require_values(info: GenerationInfo) -> None:
    """Raises LayoutError for a record that holds something else than a backup writes."""
    values: dict[str, object] = asdict(info)
    wrong = [name for name, top in WHOLE.items() if not _is_whole(values[name], top)]
    wrong += [name for name in ("started", "finished") if not _is_moment(values[name])]
    wrong += [] if isinstance(values["fake_super"], bool) else ["fake_super"]
    wrong += [name for name in ("warnings", "host_keys") if not _is_list(values[name])]
    wrong += [] if _is_text(values["install_id"]) else ["install_id"]
    if wrong:
        raise LayoutError(f"{INFO} is damaged: it holds no usable {wrong[0]}.")


def _is_whole(value: object, top: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= top


def _is_moment(value: object) -> bool:
    # Between these years every zone can show it.
    return isinstance(value, datetime) and value.tzinfo is not None and 1970 <= value.year < 9999


def _is_list(value: object) -> bool:
    return isinstance(value, tuple) and len(value) <= MANY and all(map(_is_text, value))


def _is_text(value: object) -> bool:
    """Text that every database stores: PostgreSQL takes neither NUL nor half a surrogate pair."""
    return isinstance(value, str) and "\0" not in value and not _SURROGATE.search(value)


def _require_place(info: GenerationInfo, path: Path, host: str) -> None:
    """Raises LayoutError or PathRefused for a record that belongs elsewhere."""
    if info.host != host:
        raise LayoutError(f"{INFO} says that it is of the host {encode_name(str(info.host))[:100]}.")
    if info.folder_name != path.name:
        raise LayoutError(f"{INFO} says that it is {info.folder_name}.")
    source = info.source
    if encode_name(normalise(decode_name(source))) != source or len(source) > LONGEST:
        raise LayoutError(f"{INFO} names a source in a way that no backup does: {encode_name(source)[:100]}.")


def _require_content(path: Path) -> None:
    """Raises ManifestDamaged or LayoutError."""
    tree = path / TREE
    if tree.is_symlink() or not tree.is_dir():
        raise LayoutError(f"{path.name} has no folder {TREE} with the files.")
    next(read_manifest(path / MANIFEST), None)
