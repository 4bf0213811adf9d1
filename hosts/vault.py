"""Secrets at rest: sealed in the database with the installation's master key, opened only where they are used.

The first of `PIHERDER_MASTER_KEYS` seals, each of them opens. They are looked up at every use: the setting follows the
key file, so that a process which runs for weeks knows a key that a rotation made meanwhile.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

if TYPE_CHECKING:
    from collections.abc import Sequence


class SealBroken(Exception):
    """A secret cannot be opened, or sealed, with this installation's master key; the text is one plain sentence."""

    def __init__(
        self,
        text: str = "A stored secret cannot be read with this master key: put back the master.key it was saved with.",
    ) -> None:
        super().__init__(text)


def _fernet(secret: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()))


def master_keys() -> tuple[str, ...]:
    """The master keys at this moment, the one that seals first. Raises SealBroken when there is none."""
    keys = tuple(settings.PIHERDER_MASTER_KEYS)
    if not keys:
        raise SealBroken("There is no master key: put back the master.key of this installation.")
    return keys


def _box(keys: Sequence[str]) -> MultiFernet:
    return MultiFernet([_fernet(secret) for secret in keys])


def key_fingerprint() -> str:
    """Which master key seals now, as 16 hexadecimal digits; no way leads back from it to the key. Raises SealBroken."""
    return fingerprint_of(master_keys()[0])


def fingerprint_of(secret: str) -> str:
    """The fingerprint of one master key, see `key_fingerprint`."""
    return hmac.new(secret.encode(), b"piherder master key fingerprint 1", hashlib.sha256).hexdigest()[:16]


def seal(secret: str) -> str:
    """`secret` as text that only the master key opens; "" stays "". Raises SealBroken when there is no key."""
    return _box(master_keys()).encrypt(secret.encode()).decode("ascii") if secret else ""


def unseal(sealed: str) -> str:
    """The secret behind `sealed`; "" stays "".

    Raises SealBroken when the master key is another one.
    """
    if not sealed:
        return ""
    try:
        return _box(master_keys()).decrypt(sealed.encode("ascii")).decode()
    except (InvalidToken, UnicodeError):
        raise SealBroken from None


def opens(secret: str, sealed: str) -> bool:
    """Whether this one master key opens `sealed`."""
    try:
        _fernet(secret).decrypt(sealed.encode("ascii"))
    except (InvalidToken, UnicodeError):
        return False
    return True


def reseal(sealed: str, keys: Sequence[str]) -> str:
    """What one of `keys` opens, sealed with the first of them. Raises SealBroken when none does."""
    try:
        return _box(keys).rotate(sealed.encode("ascii")).decode("ascii")
    except (InvalidToken, UnicodeError):
        raise SealBroken from None
