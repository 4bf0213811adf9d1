"""Changing the master key while everything runs, in two steps that may each be killed at any moment and run again.

`rotate` puts a new key first into the key file, where the old ones stay behind it, and seals every secret anew. From
the file's replacement on, every process seals with the new key and opens with all of them, without a restart (see
`KeyFile`), so nothing that anybody saves meanwhile can be lost. `finish` takes the old keys out, after every secret was
opened with the new one alone. It is a step of its own because a page that read the old file may store what it sealed
with it a moment later, and because copies of the database from before need the old key kept with them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from hosts import vault
from piherder.key_file import KeyFile
from piherder.keys import MAKE, is_weak, sealed_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from django.db.models import Model

BATCH = 100  # rows of one transaction
PASSES = 50  # over one column, each of which met rows that others changed meanwhile
SETTLED = 60.0  # seconds after which nobody stores any more what was sealed with the keys of the file before
LOCK = ".rotation.lock"
Row = tuple[object, str]


class RotationRefused(Exception):
    """A rotation that cannot begin or end now; the text is one plain sentence."""


@dataclass(slots=True)
class Sealed:
    """What a run did. `lost` names secrets that no key opens, which were left as they are."""

    fingerprint: str
    began: bool = False
    resealed: int = 0
    proven: int = 0
    old_keys: int = 0
    lost: list[str] = field(default_factory=list)


def _nothing(_step: str) -> None:
    return None


def rotate(on_step: Callable[[str], None] = _nothing) -> Sealed:
    """Put a new key first, unless a rotation that is under way did, and seal every secret with it.

    `on_step` is called with key, batch and proof before each of these. Raises RotationRefused in words, OSError.
    """
    with _alone():
        keys, began = vault.master_keys(), False
        file = _file()
        if file is not None:
            file.clear_drafts()
        if len(keys) == 1 or is_weak(keys[0]):
            if file is None:
                raise RotationRefused(line_for_the_environment())
            on_step("key")
            keys, began = (secrets.token_urlsafe(48), *keys), True
            file.put(keys)
        found = _seal_all(keys, on_step)
        found.began = began
        return found


def finish(on_step: Callable[[str], None] = _nothing) -> Sealed:
    """Take the old keys out of the file, when the first alone opens every secret.

    Keys from the environment are only proven; whoever set them takes the old ones out. Raises RotationRefused.
    """
    with _alone():
        keys, file = vault.master_keys(), _file()
        if len(keys) == 1:
            raise RotationRefused("No rotation is under way, there is one master key: begin one without --finish.")
        if file is None:
            return _seal_all(keys, on_step)
        file.clear_drafts()
        _refuse_young(file.path)
        _seal_all(keys, on_step)
        on_step("drop")
        file.put(keys[:1])
        on_step("dropped")
        return _seal_all(keys, on_step)


def _file() -> KeyFile | None:
    keys = settings.PIHERDER_MASTER_KEYS
    return keys if isinstance(keys, KeyFile) else None


def line_for_the_environment() -> str:
    """What to do where the keys are not ours to write."""
    return (
        f"The master key comes from PIHERDER_MASTER_KEYS: put the output of `{MAKE}` and a comma before what stands "
        "there, restart web, worker and beat, and run this again."
    )


def _refuse_young(path: Path) -> None:
    age = time.time() - path.stat().st_mtime
    if 0 <= age < SETTLED:
        raise RotationRefused(
            f"The new key is only {age:.0f} s old, and a page may still store what it sealed with the old one: "
            f"finish in {SETTLED - age:.0f} s."
        )


@contextmanager
def _alone() -> Iterator[None]:
    """Raises RotationRefused while another rotation of this data folder runs."""
    descriptor = os.open(Path(settings.DATA) / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RotationRefused("Another rotation is running: wait for its end.") from None
    finally:
        os.close(descriptor)


def _seal_all(keys: Sequence[str], on_step: Callable[[str], None]) -> Sealed:
    """Passes over every column until one finds each secret sealed with the first key: that pass is the proof."""
    found = Sealed(vault.fingerprint_of(keys[0]), old_keys=len(keys) - 1)
    for model, column in sealed_columns():
        for _ in range(PASSES):
            on_step("proof")
            opened, lost, stale = _look(model, column, keys)
            if not stale:
                break
            found.resealed += sum(_store(model, column, part, keys, on_step) for part in _parts(stale))
        else:
            raise RotationRefused(f"{model.__name__}.{column} changed {PASSES} times meanwhile: run it again.")
        found.proven += opened
        found.lost += lost
    return found


def _parts(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


def _look(model: type[Model], column: str, keys: Sequence[str]) -> tuple[int, list[str], list[Row]]:
    """How many secrets the first key opens, the names of those that none opens, and the rows left to be sealed."""
    opened, lost, stale = 0, [], []
    for pk, sealed in _rows(model, column):
        if vault.opens(keys[0], sealed):
            opened += 1
        elif any(vault.opens(old, sealed) for old in keys[1:]):
            stale.append((pk, sealed))
        else:
            lost.append(f"{model._meta.verbose_name} {model._base_manager.filter(pk=pk).first() or pk}")
    return opened, lost, stale


def _rows(model: type[Model], column: str) -> Iterator[Row]:
    filled = model._base_manager.exclude(**{column: ""}).order_by("pk")
    return iter(filled.values_list("pk", column))


def _store(
    model: type[Model], column: str, rows: Sequence[Row], keys: Sequence[str], on_step: Callable[[str], None]
) -> int:
    """Seal rows anew in one transaction; one that was changed since it was read is left to the next pass."""
    anew = [(pk, sealed, vault.reseal(sealed, keys)) for pk, sealed in rows]
    on_step("batch")
    with transaction.atomic():
        return sum(model._base_manager.filter(pk=pk, **{column: old}).update(**{column: new}) for pk, old, new in anew)
