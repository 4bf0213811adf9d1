"""`remove_host NAME`: let a machine go; its generations stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from hosts import enrol
from hosts.management.door import HostCommand, can_ask
from hosts.models import Generation
from jobs.management.door import FAILED, SUCCEEDED, WRONG_USE

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(HostCommand):
    """Remove a host from the herd; nothing of it is deleted."""

    help = "Remove a host from the herd. Its generations stay, and add_host with the same name brings it back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which, and whether to ask."""
        parser.add_argument("name")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def work(self, **options: Any) -> int:
        """Ask, then remove."""
        host = enrol.host_named(options["name"])
        count = Generation.objects.filter(source__host=host).count()
        kept = "1 generation stays" if count == 1 else f"{count} generations stay"
        if not options["yes"]:
            if not can_ask():
                raise CommandError(
                    f"Nobody can be asked whether to remove {host.name}: add --yes.", returncode=WRONG_USE
                )
            if not self.confirm(f"Remove {host.name} ({host.endpoint})? Its {kept}."):
                raise CommandError("Nothing was changed.", returncode=FAILED)
        off = enrol.remove(host)
        schedules = f", {off} schedule{'s are' if off != 1 else ' is'} off" if off else ""
        self.stdout.write(f"{host.name} is removed{schedules}; its {kept}.")
        return SUCCEEDED
