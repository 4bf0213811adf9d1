"""`run_job KIND`: request work on one host, several, all or none, and wait for it if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from jobs import registry
from jobs.management.door import EXIT_CODES, WRONG_USE, host_ids
from jobs.management.waiting import RequestCommand, add_wait_options

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(RequestCommand):
    """Request a job and, if asked, wait for its end. The exit code is part of the contract (see --help)."""

    help = f"Start work and, if asked, wait for its end. {EXIT_CODES}."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options of the contract."""
        parser.add_argument("kind", help="kind of work, such as backup or host_facts")
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--host", action="append", default=[], metavar="NAME", help="a host; may be given again")
        where.add_argument("--all-hosts", action="store_true", help="every host that is looked after")
        parser.add_argument("--param", action="append", default=[], metavar="K=V", help="a parameter of the kind")
        add_wait_options(parser)

    def work(self, **options: Any) -> int:
        """Request, wait, report."""
        params = parse_params(options["param"])
        hosts = self._hosts(options)
        answers = [self.request(options["kind"], name, host_id, params) for name, host_id in hosts.items()]
        return self.conclude(answers, options)

    def _hosts(self, options: dict[str, Any]) -> dict[str, int | None]:
        if not options["all_hosts"]:
            return {**host_ids(options["host"])} or {"": None}
        herd = registry.gate().herd()
        if not herd:
            raise CommandError("There are no hosts yet: add one with ./herder add_host.", returncode=WRONG_USE)
        return {name: pk for pk, name in sorted(herd.items(), key=lambda item: item[1])}


def parse_params(words: list[str]) -> dict[str, Any]:
    """`k=v` words; a key given again makes a list. Raises CommandError."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise CommandError(f"--param takes name=value, not {word!r}.", returncode=WRONG_USE)
        before = found.get(key)
        found[key] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    return found
