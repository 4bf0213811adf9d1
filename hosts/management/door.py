"""What the commands about hosts share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from django.core.management.base import CommandError

from hosts.access import NoWay
from hosts.enrol import EnrolRefused, StillActive
from hosts.openssh_import import ImportRefused
from hosts.ssh_errors import SshError
from hosts.store.paths import PathRefused, StoreError
from hosts.vault import SealBroken
from jobs.management.door import BUSY, FAILED, WRONG_USE, DoorCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosts.host_key import HostKey as Pin


class HostCommand(DoorCommand):
    """A command about hosts: the refusals of the services are its errors."""

    troubles = (EnrolRefused, ImportRefused, SshError, StoreError, SealBroken, NoWay)

    def trouble_code(self, error: Exception) -> int:
        """2 for slips, 3 while jobs are in the way, else 1."""
        if isinstance(error, StillActive):
            return BUSY
        slip = isinstance(error, (PathRefused, ImportRefused)) or (isinstance(error, EnrolRefused) and error.wrong_use)
        return WRONG_USE if slip else FAILED

    def confirm(self, question: str) -> bool:
        """Ask on the terminal; anything but yes is no."""
        self.stderr.write(f"{question} [y/N] ", ending="")
        self.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


def can_ask() -> bool:
    """Whether a person sits in front of us."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def secret_line() -> str:
    """The first line of standard input without its end. Raises CommandError when there is none."""
    secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise CommandError("Standard input holds no password: write it there as one line.", returncode=WRONG_USE)
    return secret


def read_file(name: str) -> str:
    """Text of a file a person named. Raises CommandError in words."""
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.", returncode=WRONG_USE) from None
    except UnicodeDecodeError:
        raise CommandError(f"{name} is no text file: name the private key.", returncode=WRONG_USE) from None


def listed(keys: Sequence[Pin]) -> str:
    """Fingerprints with their kinds, one a line."""
    return "\n".join(f"  {key.fingerprint}  {key.key_type.removeprefix('ssh-')}" for key in keys)
