"""Secrets at rest: sealed in the database with the installation's master key, opened only where they are used."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class SealBroken(Exception):
    """A secret cannot be opened with this installation's master key."""

    def __init__(self) -> None:
        super().__init__(
            "A stored secret cannot be read with this master key: put back the master.key it was saved with."
        )


def _fernet(secret: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()))


def _keys() -> MultiFernet:
    return MultiFernet([_fernet(secret) for secret in settings.PIHERDER_MASTER_KEYS])


def seal(secret: str) -> str:
    """`secret` as text that only the master key opens; "" stays ""."""
    return _keys().encrypt(secret.encode()).decode("ascii") if secret else ""


def unseal(sealed: str) -> str:
    """The secret behind `sealed`; "" stays "".

    Raises SealBroken when the master key is another one.
    """
    if not sealed:
        return ""
    try:
        return _keys().decrypt(sealed.encode("ascii")).decode()
    except (InvalidToken, UnicodeError):
        raise SealBroken from None
