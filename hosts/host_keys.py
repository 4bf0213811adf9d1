"""Host keys and login keys on the wire: what a host shows, and the login by a key or a password."""

import io
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hosts.host_key import BadKey, HostKey, parse_public_line
from hosts.login_key import LoginKey, generate_key, load_private, public_from_private
from hosts.ssh_errors import HostDown, HostRefused
from hosts.ssh_target import Target

__all__ = [
    "BadKey", "HostKey", "algorithms_for", "authenticate", "generate_key", "open_socket", "parse_public_line",
    "public_from_private", "remote_key", "scan", "shake_hands",
]  # fmt: skip

Opener = Callable[[str, int], "socket.socket | paramiko.Channel"]

# A key type is the kind of key; the algorithms are the names under which it is negotiated (RFC 8332 for RSA).
ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}


def algorithms_for(key_types: Sequence[str]) -> tuple[str, ...]:
    """All host key algorithms we speak, those of ``key_types`` first."""
    wanted = [kind for kind in key_types if kind in ALGORITHMS]
    others = [kind for kind in ALGORITHMS if kind not in wanted]
    return tuple(name for kind in (*wanted, *others) for name in ALGORITHMS[kind])


def open_socket(address: str, port: int, timeout: float, where: str = "") -> socket.socket:
    """TCP connection; ``timeout`` in seconds. Raises HostDown in words that call the host ``where``."""
    where = where or f"{address} port {port}"
    try:
        link = socket.create_connection((address, port), timeout=timeout)
    except (socket.gaierror, UnicodeError):  # the latter for a name that no DNS could hold
        raise HostDown(f"The name {address} is unknown: check the address of {where}.") from None
    except TimeoutError:
        raise HostDown(f"{where} does not answer within {timeout:g} s: is the host on?") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise HostDown(f"{where} cannot be reached ({reason}): is the host on, and its sshd?") from None
    # A command is a few small packets each way; without this each waits for the delayed acknowledgement of the one
    # before.
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def shake_hands(
    link: "socket.socket | paramiko.Channel", algorithms: Sequence[str], where: str, timeout: float
) -> paramiko.Transport:
    """Exchange banners and keys over ``link``, asking for ``algorithms`` only, in that order; no login yet.

    ``timeout`` (seconds) bounds it as a whole. Raises HostDown, or HostRefused("incompatible") without a common
    algorithm.
    """
    started = time.monotonic()
    transport = paramiko.Transport(link)
    transport.daemon = True
    transport.banner_timeout = transport.handshake_timeout = timeout
    transport.get_security_options().key_types = algorithms
    try:
        transport.start_client(timeout=timeout)
        transport.get_remote_server_key()
    except paramiko.ssh_exception.IncompatiblePeer as error:
        transport.close()
        raise HostRefused(
            f"{where} and the herder have no SSH algorithm in common ({error}).", "incompatible"
        ) from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        in_time = time.monotonic() - started < timeout
        transport.close()
        raise HostDown(f"{where} accepts connections but does not speak SSH ({_reason(error, in_time)}).") from None
    return transport


def _reason(error: Exception, in_time: bool) -> str:
    """Paramiko's words for the ways a handshake fails, made plain; silence and a closed connection read the same."""
    if "Indecipherable" in str(error):
        return "it answered with something else"
    return "it closed the connection" if in_time else "no answer in time"


def remote_key(transport: paramiko.Transport) -> HostKey:
    """The key a host has shown."""
    key = transport.get_remote_server_key()
    return HostKey(key.get_name(), key.get_base64())


def scan(address: str, port: int, timeout: float, via: Opener | None = None) -> tuple[HostKey, ...]:
    """Every key the host offers, best kind first; each kind is asked for over a connection of its own.

    ``timeout``: seconds for each step; ``via`` opens the connections through a jump host. Raises HostDown, HostRefused.
    """
    found = [key for kind in ALGORITHMS if (key := _scan_kind(kind, address, port, timeout, via))]
    if not found:
        raise HostRefused(f"{address} port {port} offers no host key of a kind the herder knows.", "incompatible")
    return tuple(found)


def _scan_kind(kind: str, address: str, port: int, timeout: float, via: Opener | None) -> HostKey | None:
    link = via(address, port) if via else open_socket(address, port, timeout)
    try:
        transport = shake_hands(link, ALGORITHMS[kind], f"{address} port {port}", timeout)
    except HostRefused:
        return None
    try:
        return remote_key(transport)
    finally:
        transport.close()


def authenticate(transport: paramiko.Transport, target: Target, timeout: float) -> None:
    """Log in by key, or else by password, within ``timeout`` seconds. Raises HostDown, HostRefused."""
    transport.auth_timeout = timeout
    key = _login_key(target) if target.private_key else None
    started = time.monotonic()
    try:
        if _try_key(transport, target, key) or _try_password(transport, target):
            return
    except (paramiko.SSHException, EOFError, OSError) as error:
        in_time = time.monotonic() - started < timeout
        if not (in_time and transport.is_active() and isinstance(error, paramiko.AuthenticationException)):
            reason = _reason(error, in_time)
            raise HostDown(
                f"{target.where} broke off the login ({reason}): is it overloaded, or shutting down?"
            ) from None
    what = "key" if target.login_password is None else "password"
    raise HostRefused(
        f"{target.where} does not let {target.user} in with this {what}: check the user name, "
        "and that the public key is in ~/.ssh/authorized_keys on the host.",
        "auth_failed",
    )


def _try_key(transport: paramiko.Transport, target: Target, key: paramiko.PKey | None) -> bool:
    """Whether the key was enough; a refused key is an error only when there is no password to try."""
    if key is None:
        return False
    try:
        return not transport.auth_publickey(target.user, key)
    except paramiko.AuthenticationException:
        if target.login_password is None or not transport.is_active():
            raise
        return False


def _try_password(transport: paramiko.Transport, target: Target) -> bool:
    if target.login_password is None:
        return False
    return not transport.auth_password(target.user, target.login_password)


def _login_key(target: Target) -> paramiko.PKey:
    """By way of cryptography: paramiko 5.1 misreads many ECDSA keys in OpenSSH form that have no comment."""
    try:
        key = load_private(target.private_key)
    except BadKey as error:
        raise HostRefused(f"The login key stored for {target.name} is unusable. {error}", "auth_failed") from None
    form = PrivateFormat.OpenSSH if isinstance(key, Ed25519PrivateKey) else PrivateFormat.TraditionalOpenSSL
    text = key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()
    return _paramiko_class(key).from_private_key(io.StringIO(text))


def _paramiko_class(key: LoginKey) -> type[paramiko.PKey]:
    if isinstance(key, Ed25519PrivateKey):
        return paramiko.Ed25519Key
    return paramiko.RSAKey if isinstance(key, RSAPrivateKey) else paramiko.ECDSAKey
