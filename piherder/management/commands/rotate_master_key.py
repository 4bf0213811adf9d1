"""`rotate_master_key`: a new master key, with every stored secret sealed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings

from hosts.vault import SealBroken
from hosts.words import count
from jobs.management.door import SUCCEEDED, DoorCommand
from piherder.key_file import KeyFile
from piherder.rotation import RotationRefused, Sealed, finish, rotate

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(DoorCommand):
    """Change the master key in two steps, while everything runs; each may be interrupted and run again."""

    help = (
        "Make a new master key and seal every stored secret with it; nothing has to be restarted. "
        "The old key stays behind the new one until --finish."
    )
    troubles = (RotationRefused, SealBroken, OSError)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which step."""
        parser.add_argument("--finish", action="store_true", help="take the old key out, a minute later or whenever")

    def work(self, **options: Any) -> int:
        """Do the step and say what holds now."""
        done = finish() if options["finish"] else rotate()
        if done.began:
            self.stdout.write("A new key stands first in the key file.")
        self.stdout.write(f"{count(done.resealed, 'secret')} sealed anew.")
        self.stdout.write(
            f"{count(done.proven, 'secret')} opened with the new key alone; its fingerprint is {done.fingerprint}."
        )
        for name in done.lost:
            self.hint(f"No key opens the secret of {name}; it was left as it is: type it again.")
        self.hint(after(done, finished=options["finish"]))
        return SUCCEEDED


def after(done: Sealed, *, finished: bool) -> str:
    """What to do next."""
    keys = settings.PIHERDER_MASTER_KEYS
    if not isinstance(keys, KeyFile):
        return "PIHERDER_MASTER_KEYS needs its first key alone now: take out the others and restart web, worker, beat."
    if finished:
        return f"The old key is gone. Copy {keys.path} to where you keep it, apart from the database."
    return (
        f"Copies of the database made before now need the old key: keep a copy of {keys.path} as it is with them. "
        "Then: ./herder rotate_master_key --finish"
    )
