"""One host key: how it is read, compared and written down."""

import base64
import hashlib
from dataclasses import dataclass


class BadKey(ValueError):
    """A key text that cannot be used; ``str()`` is one plain sentence."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """Public key of a host: its type as in known_hosts, and the base64 text."""

    key_type: str
    public_base64: str

    @property
    def fingerprint(self) -> str:
        """As OpenSSH prints it: ``SHA256:`` and the digest in base64 without padding."""
        digest = hashlib.sha256(base64.b64decode(self.public_base64)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    @property
    def line(self) -> str:
        """As one line of a public key file, without a comment."""
        return f"{self.key_type} {self.public_base64}"


def parse_public_line(line: str) -> HostKey:
    """Read ``type base64 [comment]``. Raises BadKey."""
    words = line.split()
    if len(words) < 2:
        raise BadKey("A public key is one line: its type, then its text, such as “ssh-ed25519 AAAA…”.")
    try:
        blob = base64.b64decode(words[1], validate=True)
    except ValueError:  # letters that are not ASCII as well
        raise BadKey("The text of this public key is not base64: copy the whole line again.") from None
    if _type_inside(blob) != words[0]:
        raise BadKey(f"This public key says {words[0]} but holds something else: copy the whole line again.")
    if not _is_whole(blob):
        raise BadKey("The text of this public key is cut off: copy the whole line again.")
    return HostKey(words[0], words[1])


def _is_whole(blob: bytes) -> bool:
    """Whether a key is its type and at least one more part, each with its length before it, and nothing else."""
    parts = 0
    while blob:
        length = int.from_bytes(blob[:4], "big")
        if len(blob) < 4 + length:
            return False
        blob, parts = blob[4 + length :], parts + 1
    return parts > 1


def _type_inside(blob: bytes) -> str:
    """The type that the key itself names: a length of four bytes, then that many (RFC 4253, 6.6)."""
    length = int.from_bytes(blob[:4], "big")
    return blob[4 : 4 + length].decode("ascii", "replace")
