"""`edit_host NAME`: change what a person sets on a host."""

from __future__ import annotations

import re
from argparse import BooleanOptionalAction
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.db import transaction

from hosts import contact, enrol
from hosts.access import target_of
from hosts.management.door import read_file, secret_line
from hosts.management.trust import TrustCommand, add_trust_options
from hosts.models import BackupRoot
from hosts.vault import seal
from jobs.management.door import SUCCEEDED, WRONG_USE, me

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from hosts.enrol import LoginKey
    from hosts.host_key import HostKey as Pin
    from hosts.models import Host

# Options that are the field of the same name.
FIELDS = (
    "address", "port", "user", "bandwidth_kib", "backup_limit", "keep_last", "keep_daily", "keep_weekly",
    "keep_monthly", "before_hook", "after_hook", "hooks_touch_stacks",
)  # fmt: skip
FOREIGN = {
    "name", "zone", "fingerprint", "trust_first_key", "verbosity", "settings", "pythonpath", "traceback", "no_color",
    "force_color", "skip_checks",
}  # fmt: skip
UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


class Command(TrustCommand):
    """Change a host. What is not named stays as it is."""

    help = "Change a host; what is not named stays as it is. All changes are made or none."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Every field a person sets, then keys, sources and the schedule."""
        parser.add_argument("name")
        for words in ("--address", "--user"):
            parser.add_argument(words)
        parser.add_argument("--port", type=int)
        parser.add_argument("--jump", metavar="HOST", help='a host on the way to it; "" for none')
        parser.add_argument(
            "--bandwidth", type=int, dest="bandwidth_kib", metavar="KIB", help="per second; 0 = no limit"
        )
        parser.add_argument("--backup-limit", type=duration, metavar="TIME", help="longest backup, such as 90m or 6h")
        for kept in ("last", "daily", "weekly", "monthly"):
            parser.add_argument(f"--keep-{kept}", type=int, metavar="N")
        parser.add_argument("--before-hook", metavar="COMMAND", help='runs on the host before a backup; "" for none')
        parser.add_argument("--after-hook", metavar="COMMAND", help='runs after it, also when it failed; "" for none')
        parser.add_argument(
            "--hooks-touch-stacks", action=BooleanOptionalAction, help="the hooks stop or start containers"
        )
        parser.add_argument("--backup-root", metavar="PATH", help='one of ./herder backup_root; "" for the default')
        self._add_secrets(parser)
        self._add_sources(parser)

    def _add_secrets(self, parser: ArgumentParser) -> None:
        parser.add_argument("--key", metavar="FILE", help="another login key; tried before it is stored")
        parser.add_argument("--repin", action="store_true", help="confirm the host key anew, as after a reinstallation")
        add_trust_options(parser)
        sudo = parser.add_mutually_exclusive_group()
        sudo.add_argument("--sudo-password-stdin", action="store_true", help="store the sudo password, sealed")
        sudo.add_argument("--no-sudo-password", action="store_true", help="forget the sudo password")

    def _add_sources(self, parser: ArgumentParser) -> None:
        many: dict[str, Any] = {"action": "append", "default": [], "metavar": "PATH"}
        parser.add_argument("--source", **many, help="add a folder to back up")
        parser.add_argument(
            "--allow-system", action="store_true", help="--source may be of the system, such as / or /usr"
        )
        parser.add_argument("--one-file-system", **many, help="leave out other filesystems mounted below this source")
        parser.add_argument("--all-file-systems", **many, help="back those up too")
        parser.add_argument("--remove-source", **many, help="stop backing it up; what was kept stays")
        parser.add_argument(
            "--exclude", action="append", metavar="PATTERN", help='excludes of --source, or else of all; "" for none'
        )
        parser.add_argument("--accept-shrink", **many, help="let this source be smaller at its next backup")
        parser.add_argument("--cron", metavar="CRON", help='when to back up, such as "30 2 * * *"')
        parser.add_argument("--zone", default="", help="time zone of --cron, such as Europe/Berlin")

    def work(self, **options: Any) -> int:
        """Look at the host where that is needed, then change everything in one transaction."""
        host = enrol.host_named(options["name"])
        self._refuse_slips(options)
        fields = {name: options[name] for name in FIELDS if options[name] is not None} | self._links(options)
        if options["sudo_password_stdin"] or options["no_sudo_password"]:
            fields["sudo_password_sealed"] = seal(secret_line()) if options["sudo_password_stdin"] else ""
        enrol.check(host, **fields)
        pins = self._new_pins(host, fields, options)
        key = enrol.read_login_key(read_file(options["key"])) if options["key"] else None
        if key:
            try_key(host, key, pins)
        with transaction.atomic():
            if key:
                fields["credential"] = enrol.store_key(host.name, key)
            enrol.save(host, **fields)
            if pins:
                enrol.pin(host, pins, by=me().words)
            notes = self._sources(host, options)
            if options["cron"]:
                enrol.reschedule(host, options["cron"], options["zone"])
        for note in [f"{host.name} is changed.", *notes]:
            self.stdout.write(note)
        return SUCCEEDED

    def _refuse_slips(self, options: dict[str, Any]) -> None:
        if options["allow_system"] and not options["source"]:
            raise CommandError("--allow-system belongs to --source.", returncode=WRONG_USE)
        if options["zone"] and not options["cron"]:
            raise CommandError("--zone belongs to --cron.", returncode=WRONG_USE)
        if not any(is_given(name, value) for name, value in options.items() if name not in FOREIGN):
            raise CommandError("Name what to change: see herder edit_host --help.", returncode=WRONG_USE)
        if (options["fingerprint"] or options["trust_first_key"]) and not options["repin"]:
            raise CommandError("--fingerprint and --trust-first-key belong to --repin.", returncode=WRONG_USE)

    def _links(self, options: dict[str, Any]) -> dict[str, Any]:
        """Fields that name another row."""
        links: dict[str, Any] = {}
        if options["jump"] is not None:
            links["jump"] = enrol.host_named(options["jump"]) if options["jump"] else None
        if options["backup_root"] is not None:
            links["backup_root"] = root_at(options["backup_root"]) if options["backup_root"] else None
        return links

    def _new_pins(self, host: Host, fields: dict[str, Any], options: dict[str, Any]) -> list[Pin]:
        if not options["repin"]:
            return []
        return self.pins(
            host.name,
            fields.get("address", host.address),
            fields.get("port", host.port),
            fields.get("jump", host.jump),
            fingerprint=options["fingerprint"] or "",
            trust=options["trust_first_key"],
        )

    def _sources(self, host: Host, options: dict[str, Any]) -> list[str]:
        """Change the sources; returns sentences about what became of them."""
        notes = []
        system = options["allow_system"]
        added = [enrol.add_source(host, path, allow_system=system) for path in options["source"]]
        for option, stay in (("one_file_system", True), ("all_file_systems", False)):
            for path in options[option]:
                enrol.stay_on_one(host, path, stay=stay)
        for path in options["remove_source"]:
            gone = enrol.remove_source(host, path)
            notes.append(f"{path} is not backed up any more{'' if gone else '; its generations stay'}.")
        if options["exclude"] is not None:
            excludes = [pattern for pattern in options["exclude"] if pattern]
            for source in added or host.sources.all():
                source.excludes = excludes
                source.save(update_fields=["excludes"])
        for path in options["accept_shrink"]:
            source = enrol.source_of(host, path)
            source.accept_shrink = True
            source.save(update_fields=["accept_shrink"])
            notes.append(f"The next backup of {source.path} may be smaller.")
        return notes


def is_given(name: str, value: object) -> bool:
    """Whether an option was named; 0 and "" are values like others, and so is the "no" of a field."""
    return value is not None and value != [] and (value is not False or name in FIELDS)


def try_key(host: Host, key: LoginKey, pins: list[Pin]) -> None:
    """Log in as the host will be, before anything is stored. Raises SshError."""
    target = target_of(host)
    contact.try_login(replace(target, pins=tuple(pins)) if pins else target, key.private)


def duration(text: str) -> timedelta:
    """A length of time such as 45s, 90m, 2h, 1d or plain seconds. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,7})\s*(s|m|min|h|d)?", text.strip())
    if not found or not int(found[1]):
        raise ValueError
    return timedelta(**{UNITS[found[2] or ""]: int(found[1])})


def root_at(path: str) -> BackupRoot:
    """The stored root. Raises CommandError naming those there are."""
    row = BackupRoot.objects.filter(path=path.rstrip("/") or "/").first()
    if row is None:
        known = ", ".join(BackupRoot.objects.values_list("path", flat=True)) or "none"
        raise CommandError(f"{path} is no backup root: known are {known}.", returncode=WRONG_USE)
    return row
