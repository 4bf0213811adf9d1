"""Settings of a web process whose looks at passwords can be counted: each leaves a byte in the file named by LOOKS."""

from pathlib import Path

from django.contrib.auth.hashers import PBKDF2PasswordHasher

from piherder import env
from piherder.settings import *  # noqa: F403  # the way Django settings extend each other

PASSWORD_HASHERS = ["tests.piherder.accounts.replica.Watched"]


class Watched(PBKDF2PasswordHasher):
    """As slow as the real one, so that guesses of many processes overlap."""

    algorithm = "watched"

    def verify(self, password: str, encoded: str) -> bool:
        """Look at a password, and say so."""
        with Path(env.text("LOOKS")).open("ab") as file:
            file.write(b".")
        return super().verify(password, encoded)
