"""Where the pages are asked for, and who may say so.

`PIHERDER_URL` is the one address that people open; the names, origins and cookies that belong to it follow from it.
Headers such as X-Forwarded-For count when they come from one of `PIHERDER_TRUSTED_PROXIES` and are nobody's word
otherwise (`front` acts on that).
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from piherder.env import BadEnvironment

if TYPE_CHECKING:
    from collections.abc import Sequence

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")  # Django knows no name with an underscore (RFC 1123)
DEFAULT_PORTS = {"http": 80, "https": 443}
SOCKET = "unix"  # the word for a proxy that comes through a Unix socket and so has no address
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
EXAMPLE = "such as https://herder.example.org or http://192.0.2.7:8000, its name of letters, digits, dots and hyphens"


def origin(text: str, name: str = "PIHERDER_URL") -> str:
    """An address as browsers write its origin: scheme, name, and the port where it is not the usual one; "" for "".

    Raises BadEnvironment in one sentence.
    """
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadEnvironment(f"{name} must be an address {EXAMPLE}, not {text!r}.") from None
    host = parts.hostname or ""
    more = parts.path.strip("/") or parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in DEFAULT_PORTS or not is_host(host) or more:
        raise BadEnvironment(f"{name} must be an address {EXAMPLE}, not {text!r}.")
    usual = port in (None, DEFAULT_PORTS[parts.scheme])
    return f"{parts.scheme}://{bracketed(host)}{'' if usual else f':{port}'}"


def is_host(name: str) -> bool:
    """Whether a text can be the name or address of a machine."""
    return bool(NAME.fullmatch(name)) or (":" in name and bool(without_port(f"[{name}]")))


def bracketed(host: str) -> str:
    """A host as it stands in an address, one of IPv6 in the spelling that browsers send (RFC 5952)."""
    return f"[{without_port(f'[{host}]') or host}]" if ":" in host else host


def allowed(word: str) -> str:
    """A further name of the pages as Django's ALLOWED_HOSTS spells it, though it was written with scheme or port."""
    host = word.partition("://")[2] or word
    if is_host(host.strip("[]")):
        return bracketed(host.strip("[]"))
    try:
        return name_of(f"//{host}") or word
    except ValueError:
        return word


def name_of(address: str) -> str:
    """The name in an origin, as Django's ALLOWED_HOSTS spells it."""
    return bracketed(urlsplit(address).hostname or "")


def proxies(words: Sequence[str]) -> tuple[Network | str, ...]:
    """Addresses and networks of proxies, and perhaps the word "unix". Raises BadEnvironment in one sentence."""
    found: list[Network | str] = []
    for word in words:
        try:
            found.append(word if word == SOCKET else ipaddress.ip_network(word, strict=False))
        except ValueError:
            raise BadEnvironment(
                "PIHERDER_TRUSTED_PROXIES must hold addresses or networks such as 192.0.2.7 or 172.16.0.0/12, "
                f"or the word {SOCKET}, not {word!r}."
            ) from None
    return tuple(found)


def is_trusted(address: str, known: Sequence[Network | str]) -> bool:
    """Whether a connection from this address is one of our proxies; "" is a Unix socket."""
    if not address:
        return SOCKET in known
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    plain = getattr(found, "ipv4_mapped", None) or found
    return any(plain in network for network in known if not isinstance(network, str))


def client(came_from: str, forwarded: str, known: Sequence[Network | str]) -> str:
    """Who asks: from the right of X-Forwarded-For the first that is none of our proxies.

    What stands left of that one is its own word. A text that is no address ends the search at who handed it to us.
    """
    here = came_from
    for word in reversed(forwarded.split(",") if forwarded else []):
        if not is_trusted(here, known):
            break
        found = without_port(word.strip())
        if not found:
            break
        here = found
    return here


def without_port(word: str) -> str:
    """An address as some proxies write it, with a port or in brackets; "" for what is none."""
    host = word[1:].partition("]")[0] if word.startswith("[") else word
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def line(address: str) -> str:
    """The line that makes an address ours; "" for a text that is none."""
    try:
        return f"PIHERDER_URL={origin(address)}"
    except BadEnvironment:
        return ""
