"""`recover_admin`: the way back in for who has a shell and no password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from jobs.management.door import SUCCEEDED, WRONG_USE, DoorCommand
from piherder.accounts import people

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(DoorCommand):
    """Give an account a new password, the role admin and a free way in; whoever was logged in under it is out."""

    help = "Let an account in as admin again, with a new password that is shown once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Whose."""
        parser.add_argument("name", help="of an account that is there")

    def work(self, **options: Any) -> int:
        """Recover, and say the password."""
        name = options["name"]
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(unknown(name), returncode=WRONG_USE)
        password = people.recover(user)
        self.stdout.write(f"User {name}, password {password} (shown once, never again)")
        return SUCCEEDED


def unknown(name: str) -> str:
    """One sentence for an account that is not there."""
    names = list(User.objects.order_by("username").values_list("username", flat=True)[:11])
    if not names:
        return "There is no account yet: ./herder first_start --admin makes one."
    return f"There is no account called {name}: known are {', '.join(names[:10])}{' …' if names[10:] else ''}."
