"""Which of the keys a host shows are to prove it: told by a fingerprint, trusted at first sight, or asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.management.base import CommandError

from hosts.contact import shown_keys
from hosts.enrol import pick
from hosts.management.door import HostCommand, can_ask, listed
from jobs.management.door import FAILED, WRONG_USE

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from hosts.host_key import HostKey as Pin
    from hosts.models import Host


def add_trust_options(parser: ArgumentParser) -> None:
    """`--fingerprint` and `--trust-first-key`."""
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument("--fingerprint", metavar="SHA256:…", help="of the host key, read on the host's own screen")
    trust.add_argument("--trust-first-key", action="store_true", help="accept the keys shown now without comparing")


class TrustCommand(HostCommand):
    """A command that pins host keys."""

    def pins(
        self, name: str, address: str, port: int, jump: Host | None, *, fingerprint: str, trust: bool
    ) -> list[Pin]:
        """The keys to pin. Raises CommandError when nobody can be asked, or says no."""
        keys = shown_keys(address, port, jump)
        if fingerprint:
            return list(pick(keys, fingerprint))
        if trust:
            return list(keys)
        if not can_ask():
            raise CommandError(
                f"The host key of {name} is unknown: it shows {keys[0].fingerprint} ({keys[0].key_type}); compare it "
                "with the host's own screen, then give it with --fingerprint, or use --trust-first-key.",
                returncode=WRONG_USE,
            )
        self.stderr.write(f"{name} ({address} port {port}) shows:\n{listed(keys)}")
        self.stderr.write("On the host, this prints the same: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
        if not self.confirm("Is one of these what the host's own screen shows?"):
            raise CommandError("Nothing was stored.", returncode=FAILED)
        return list(keys)
