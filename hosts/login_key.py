"""The key pairs that the herder logs in with, as text and as keys."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from hosts.host_key import BadKey

LoginKey = Ed25519PrivateKey | EllipticCurvePrivateKey | RSAPrivateKey


def generate_key(comment: str) -> tuple[str, str]:
    """A new ed25519 key pair: the private key as OpenSSH text, the public key as one line with ``comment``."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} {comment}".strip()


def public_from_private(text: str, passphrase: str | None = None) -> str:
    """The public line of a private key (OpenSSH or PEM text). Raises BadKey in words when it is encrypted or broken."""
    key = load_private(text, passphrase)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def load_private(text: str, passphrase: str | None = None) -> LoginKey:
    """The key in a text (OpenSSH or PEM). Raises BadKey in words."""
    load = load_ssh_private_key if "OPENSSH PRIVATE KEY" in text else load_pem_private_key
    encrypted = "This private key is protected by a passphrase: give it too, or use a key without one (ssh-keygen -p)."
    try:
        key = load(text.strip().encode() + b"\n", passphrase.encode() if passphrase else None)
    except TypeError:
        raise BadKey(encrypted if passphrase is None else "This private key has no passphrase: leave it out.") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        if "password" in str(error).lower() and passphrase is None:
            raise BadKey(encrypted) from None
        what = "wrong passphrase, or the text is damaged" if passphrase else "not a private key, or the text is damaged"
        raise BadKey(f"This private key cannot be read ({what}): paste the whole file again.") from None
    if not isinstance(key, LoginKey):
        raise BadKey("This kind of private key cannot be used for SSH: use ed25519, ECDSA or RSA.")
    return key
