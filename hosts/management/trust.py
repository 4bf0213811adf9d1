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
        """The keys to pin: the one that was compared, or all that are trusted unseen.

        Raises CommandError when nobody can be asked, or says no.
        """
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
        self.stderr.write(f"{name} ({address} port {port}) shows:\n{listed(keys[:1])}")
        if keys[1:]:
            self.stderr.write(f"and, to be pinned instead with --fingerprint:\n{listed(keys[1:])}")
        it = "the first" if keys[1:] else "it"
        self.stderr.write(f"On the host, this prints {it}: ssh-keygen -lf {public_file(keys[0])}")
        if not self.confirm(f"Is {it} what the host's own screen shows?"):
            raise CommandError("Nothing was stored.", returncode=FAILED)
        return [keys[0]]


def public_file(key: Pin) -> str:
    """Where OpenSSH keeps a host key of this kind (sshd(8), FILES)."""
    return f"/etc/ssh/ssh_host_{key.key_type.removeprefix('ssh-').partition('-')[0]}_key.pub"
