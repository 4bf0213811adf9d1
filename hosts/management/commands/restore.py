"""`restore HOST PATH`: bring a file, a folder or a whole source back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from hosts.enrol import host_named
from hosts.management.door import HostCommand
from hosts.management.lookup import any_host, good_generation, place_in_source
from hosts.store.paths import check_target, encode_name
from jobs.management.door import EXIT_CODES, WRONG_USE
from jobs.management.waiting import RequestCommand, add_wait_options

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from hosts.models import Host


class Command(RequestCommand, HostCommand):
    """Request a restore."""

    help = f"Bring a file, a folder or a whole source back from a generation. {EXIT_CODES}."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What, from when, and to where."""
        parser.add_argument("host")
        parser.add_argument("path", help="absolute path on the host, inside one of its sources")
        parser.add_argument("--generation", default="latest", metavar="N", help="its number (default: latest)")
        parser.add_argument("--to", default="", metavar="HOST:PATH", help="another place (default: where it was)")
        parser.add_argument("--dry-run", action="store_true", help="only list what would change")
        parser.add_argument("--delete", action="store_true", help="also delete what the generation does not have")
        parser.add_argument("--allow-system", action="store_true", help="even into folders of the operating system")
        add_wait_options(parser)

    def work(self, **options: Any) -> int:
        """Translate the path into source and rest, then request the job."""
        host = any_host(options["host"])
        source, rest = place_in_source(host, options["path"])
        chosen = good_generation(source, options["generation"])
        target, to_path = destination(options["to"], host, allow_system=options["allow_system"])
        params = {
            "from_host": "" if target.pk == host.pk else host.name,
            "source": source.path,
            "sequence": "latest" if options["generation"] == "latest" else chosen.sequence,
            "path": rest,
            "to_path": to_path,
            "dry_run": options["dry_run"],
            "delete": options["delete"],
            "allow_system": options["allow_system"],
        }
        return self.conclude([self.request("restore", target.name, target.pk, params)], options)


def destination(text: str, host: Host, *, allow_system: bool = False) -> tuple[Host, str]:
    """`HOST:PATH`, `HOST:`, `PATH` or nothing, as the host to write to and a path ("" for where it was).

    Raises EnrolRefused, PathRefused, or CommandError for a word that is neither.
    """
    if not text:
        return host, ""
    name, colon, path = ("", ":", text) if text.startswith("/") else text.partition(":")
    if not colon:
        raise CommandError(f"--to takes HOST:PATH or an absolute path, not {text!r}.", returncode=WRONG_USE)
    place = encode_name(check_target(path, allow_system=allow_system)) if path else ""
    return host_named(name) if name else host, place
