"""From a host's row to what SSH needs: address, pins and the opened key, held in memory only; and the login by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.host_key import HostKey as Pin
from hosts.ssh_target import Target
from hosts.vault import unseal

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.models import Host
    from hosts.ssh import Shell

LONGEST_WAY = 5  # hosts on the way to one, so that two hosts which jump over each other end in words


class NoWay(Exception):
    """The jump hosts of a host never end."""


def log_in(host: Host, check: Callable[[], None] | None = None) -> Shell:
    """A connection to a host, see `ssh.connect`. Raises HostDown, HostRefused, SealBroken, NoWay."""
    from hosts import ssh  # here, because paramiko takes 19 MB and the web server never logs in

    return ssh.connect(target_of(host), check=check) if check else ssh.connect(target_of(host))


def target_of(host: Host, depth: int = 0) -> Target:
    """The host as SSH sees it, with its jump hosts. Raises SealBroken, and NoWay where those run in a circle."""
    if depth > LONGEST_WAY:
        raise NoWay(f"The jump hosts of {host.name} run in a circle: edit one of them.")
    return Target(
        name=host.name,
        address=host.address,
        port=host.port,
        user=host.user,
        pins=tuple(Pin(key.key_type, key.public) for key in host.keys.all()),
        private_key=unseal(host.credential.private_key_sealed),
        sudo_password=unseal(host.sudo_password_sealed) or None,
        jump=target_of(host.jump, depth + 1) if host.jump else None,
    )
