"""`unlock_login`: let people try their passwords again at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from jobs.management.door import SUCCEEDED, WRONG_USE, DoorCommand
from piherder.accounts.limits import network, unlock

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(DoorCommand):
    """Forget wrong guesses, so that whoever waits because of them need not wait any longer."""

    help = "Forget wrong guesses at an account, from an address, or all of them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Whose."""
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("name", nargs="?", help="of an account, as it was typed at the login")
        which.add_argument("--address", help="that the guesses came from")
        which.add_argument("--all", action="store_true", help="every account and every address")

    def work(self, **options: Any) -> int:
        """Say how many were forgotten."""
        found = unlock(**self._which(options))
        self.stdout.write(f"{found} wrong guess{'' if found == 1 else 'es'} forgotten.")
        return SUCCEEDED

    def _which(self, options: dict[str, Any]) -> dict[str, str]:
        if options["all"]:
            return {}
        if options["address"] is None:
            return {"username": options["name"]}
        if not (address := network(options["address"])):
            raise CommandError(f"{options['address']} is no address: write it like 192.0.2.7.", returncode=WRONG_USE)
        return {"ip_address": address}
