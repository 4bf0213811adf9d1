"""`add_host NAME`: take a machine into the herd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from hosts import contact, enrol
from hosts.management.door import read_file, secret_line
from hosts.management.trust import TrustCommand, add_trust_options
from hosts.models import Host
from hosts.models.host import NAME
from hosts.returning import brought_back
from hosts.store.paths import check_source, normalise
from jobs.management.door import SUCCEEDED, WRONG_USE, me

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from hosts.enrol import LoginKey
    from hosts.host_key import HostKey as Pin
    from hosts.ssh_target import Target


class Command(TrustCommand):
    """Add a host: its key is confirmed, its login tried, its nightly backup scheduled."""

    help = "Add a host. Its host key is confirmed first, then the login is tried; only then it is stored."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options of the contract."""
        parser.add_argument("name", help="its name here, which is also that of its folder of backups")
        parser.add_argument("--address", help="name or IP address (default: NAME)")
        parser.add_argument("--port", type=int, default=22)
        parser.add_argument("--user", default="root")
        key = parser.add_mutually_exclusive_group(required=True)
        key.add_argument("--key", metavar="FILE", help="private key that opens the host")
        key.add_argument("--generate-key", action="store_true", help="make an ed25519 key pair for it")
        parser.add_argument(
            "--password-stdin",
            action="store_true",
            help="log in once with the password on standard input to install the key",
        )
        parser.add_argument("--jump", metavar="HOST", help="a host of the herd on the way to it")
        parser.add_argument("--source", action="append", default=[], metavar="PATH", help="folder to back up")
        parser.add_argument(
            "--exclude", action="append", default=[], metavar="PATTERN", help="left out of every source"
        )
        parser.add_argument(
            "--allow-system", action="store_true", help="also a source of the system, such as / or /usr"
        )
        parser.add_argument(
            "--one-file-system", action="append", default=[], metavar="PATH",
            help="a source below which other mounted filesystems are left out",
        )  # fmt: skip
        parser.add_argument("--no-schedule", action="store_true", help="no nightly backup")
        add_trust_options(parser)

    def work(self, **options: Any) -> int:
        """Check what was typed, then the host, then store."""
        name, address = options["name"], options["address"] or options["name"]
        self._refuse_slips(options)
        key = enrol.new_login_key(name) if options["generate_key"] else enrol.read_login_key(read_file(options["key"]))
        jump = enrol.host_named(options["jump"]) if options["jump"] else None
        password = secret_line() if options["password_stdin"] else ""
        pins = self.pins(
            name, address, options["port"], jump,
            fingerprint=options["fingerprint"] or "", trust=options["trust_first_key"],
        )  # fmt: skip
        target = contact.login_target(name, address, options["port"], options["user"], pins, jump)
        tried = self._open(target, key, password, generated=options["generate_key"])
        back = brought_back(name)
        host = self._store(options, address, key, pins, jump)
        self._report(host, key, tried=tried, back=back)
        return SUCCEEDED

    def _refuse_slips(self, options: dict[str, Any]) -> None:
        """What is wrong without looking at the host is said before it is contacted."""
        name = options["name"]
        try:
            NAME(name)
        except ValidationError as error:
            raise CommandError(f"{name!r} cannot be a name: {error.messages[0]}", returncode=WRONG_USE) from None
        if not 1 <= options["port"] <= 65_535:
            raise CommandError(f"--port must lie between 1 and 65535, not {options['port']}.", returncode=WRONG_USE)
        if Host.herd.filter(name=name).exists():
            raise CommandError(f"There is already a host called {name}: use edit_host.", returncode=WRONG_USE)
        paths = [check_source(path, allow_system=options["allow_system"]) for path in options["source"]]
        for path in options["one_file_system"]:
            if normalise(path) not in paths:
                raise CommandError(f"--one-file-system names {path}, which is no --source.", returncode=WRONG_USE)

    def _open(self, target: Target, key: LoginKey, password: str, *, generated: bool) -> bool:
        """Put the key in place if a password was given, and try it; False when it is still to be pasted."""
        if password:
            contact.install_key(target, key.public, password)
        elif generated:
            return False
        contact.try_login(target, key.private)
        return True

    def _store(self, options: dict[str, Any], address: str, key: LoginKey, pins: list[Pin], jump: Host | None) -> Host:
        host = enrol.add(
            options["name"], key, pins, by=me().words, sources=options["source"], excludes=options["exclude"],
            address=address, port=options["port"], user=options["user"], jump=jump,
            allow_system=options["allow_system"], schedule=not options["no_schedule"],
        )  # fmt: skip
        for path in options["one_file_system"]:
            enrol.stay_on_one(host, path, stay=True)
        return host

    def _report(self, host: Host, key: LoginKey, *, tried: bool, back: str) -> None:
        count = host.sources.filter(enabled=True).count()
        kept = f"{count} source{'s' if count != 1 else ''}"
        pinned = ", ".join(pin.fingerprint for pin in host.keys.all())
        how = f"is back, with {back}" if back else "is added"
        self.stdout.write(f"{host.name} {how}: {host.endpoint}, {kept}, host key {pinned}.")
        if tried:
            self.stdout.write(f"Next: ./herder test_host {host.name}")
            return
        self.stdout.write(
            f"Put this line into ~{host.user}/.ssh/authorized_keys on the host, then ./herder test_host {host.name}:"
        )
        self.stdout.write(key.public)
