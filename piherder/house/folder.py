"""The data folder of an embedded installation: its place, its mode, the lock that admits one stack, the state file."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE = Path(__file__).resolve().parents[2]
LONGEST_SOCKET = 103  # sun_path of Linux holds 108 bytes with the closing NUL; a little air for temporary names


class Refused(Exception):
    """The house cannot go on; the text is one plain sentence for the person."""


@dataclass(frozen=True, slots=True)
class State:
    """What a running stack tells others: its supervisor, its address, and per program the pid and the restarts."""

    supervisor: int
    address: str = ""
    programs: dict[str, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)


def make_private(path: Path) -> Path:
    """The folder, made when missing, with mode 0700. Raises Refused in words."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)
    except OSError as error:
        raise Refused(
            f"The folder {path} cannot be used: {error.strerror}; choose another with PIHERDER_DATA."
        ) from error
    return path


def prepare(path: Path, clone: Path = CLONE) -> Path:
    """The data folder, made with mode 0700 and proven to lie outside the clone, where `git clean` would reach it."""
    resolved = path.expanduser().resolve()
    if resolved == clone or clone in resolved.parents:
        raise Refused(
            f"PIHERDER_DATA is {resolved}, inside the clone, where git clean would delete it; choose another folder."
        )
    return make_private(resolved)


def lock_path(data: Path) -> Path:
    """The file whose lock a running stack holds."""
    return data / "stack.lock"


@contextlib.contextmanager
def only_one(data: Path) -> Iterator[None]:
    """Holds the data folder for one stack. Raises Refused naming the other one's process.

    The kernel drops the lock with the process, so a killed stack leaves nothing to clean up.
    """
    with lock_path(data).open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            owner = handle.read().strip() or "unknown"
            raise Refused(
                f"PiHerder already runs on {data} (process {owner}); stop it first or choose another PIHERDER_DATA."
            ) from None
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield


def is_running(data: Path) -> bool:
    """True while a stack holds the data folder."""
    if not lock_path(data).exists():
        return False
    with lock_path(data).open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def state_path(data: Path) -> Path:
    """The state file of a running stack."""
    return data / "stack.json"


def write_state(path: Path, state: State) -> None:
    """Replaces the state file at once, so that a reader never sees half of it."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(asdict(state)) + "\n")
    draft.replace(path)


def read_state(data: Path) -> State | None:
    """State of the stack that runs on `data`; None when none does or its file cannot be read.

    What a later version adds to the file is passed over: a clone may be updated under a running stack.
    """
    if not is_running(data):
        return None
    try:
        found: dict[str, Any] = json.loads(state_path(data).read_text())
        return State(**{each.name: found[each.name] for each in fields(State) if each.name in found})
    except (FileNotFoundError, ValueError, TypeError):
        return None


def socket_folder(wanted: Path, name: str) -> Path:
    """`wanted` when a socket called `name` fits the kernel's limit there, else a private short folder."""
    if len(os.fsencode(wanted / name)) <= LONGEST_SOCKET:
        return make_private(wanted)
    # not /run/user: that goes away when its user logs out, and the stack may stay
    return Path(tempfile.mkdtemp(prefix="piherder-", dir="/tmp"))
