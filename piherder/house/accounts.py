"""The system user that PiHerder runs as, and the folders that belong to it."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from piherder.house.folder import Refused
from piherder.house.layout import USER

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE_FROM = 1000  # first uid of a person on Debian (adduser.conf)
NO_CONTENT = {"lost+found"}  # of a fresh disk


@dataclass(frozen=True, slots=True)
class Account:
    """A user's ids."""

    uid: int
    gid: int


def find(name: str = USER) -> Account | None:
    """The system user; None when there is none. Raises Refused when a person has that name."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    if entry.pw_uid >= PEOPLE_FROM:
        raise Refused(f"The user {name} here is a person's login, not a system user: rename it first.")
    return Account(entry.pw_uid, entry.pw_gid)


def useradd(data: Path, name: str = USER) -> list[str]:
    """The command that makes the user: no password, no login shell, at home in the data folder."""
    options = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", "--comment", "PiHerder"]
    return ["useradd", *options, "--home-dir", str(data), name]


def make(data: Path) -> Account:
    """The system user, made where it is missing. Raises Refused."""
    if found := find():
        return found
    done = subprocess.run(useradd(data), capture_output=True, text=True)
    made = find()
    if made is None:
        raise Refused(f"The user {USER} could not be made: {done.stderr.strip()}")
    return made


def content(path: Path) -> set[str]:
    """Names in a folder, apart from what each new disk holds; none when there is no folder."""
    return set(os.listdir(path)) - NO_CONTENT if path.is_dir() else set()


def refusal(path: Path, account: Account | None) -> str:
    """Why `path` cannot become a folder of the user, in one sentence; "" when it can."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        return f"{path} is no folder: move it away first."
    if not content(path) or (account and path.stat().st_uid == account.uid):
        return ""
    owner = owner_name(path.stat().st_uid)
    return (
        f"The folder {path} holds files of {owner}, perhaps those of a `make run`: end that and move the folder away, "
        f"or choose another. (Backups that root made stay readable for root alone.)"
    )


def owner_name(uid: int) -> str:
    """A user's name, or its number when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def own_folder(path: Path, account: Account) -> None:
    """Makes `path` a private folder of the user; what lies above it is made readable. Raises Refused."""
    if reason := refusal(path, account):
        raise Refused(reason)
    for above in reversed(path.parents):
        if not above.exists():
            above.mkdir(mode=0o755)
            above.chmod(0o755)
    path.mkdir(mode=0o700, exist_ok=True)
    os.chown(path, account.uid, account.gid)
    path.chmod(0o700)
