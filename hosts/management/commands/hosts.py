"""`hosts`: the herd at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone
from rich.text import Text

from hosts import standing
from hosts.management.door import HostCommand
from hosts.models import Host
from jobs.management.door import SUCCEEDED, add_json
from jobs.models import ACTIVE, Job
from jobs.spans import ago, stamp
from jobs.terminal import table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from jobs.terminal import Cell


class Command(HostCommand):
    """List hosts."""

    help = "List hosts: how they are reached, when they were seen and backed up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Only the form."""
        add_json(parser)

    def work(self, **options: Any) -> int:
        """Print them."""
        hosts = list(Host.herd.select_related("jump", "backup_root").prefetch_related("sources", "keys"))
        if options["as_json"]:
            self.emit([as_json(host) for host in hosts])
        elif hosts:
            busy = set(Job.objects.filter(status__in=ACTIVE).values_list("host_id", flat=True))
            late = standing.late(timezone.now())
            rows = [row(host, busy=host.pk in busy, late=str(late.get(host.pk, ""))) for host in hosts]
            table(
                self.stdout,
                ("host", "address", "state", "seen", "last backup", "sources", ""),
                rows,
                right=("sources",),
            )
        else:
            self.stdout.write("There are no hosts yet: add one with ./herder add_host.")
        return SUCCEEDED


def state_of(host: Host, *, busy: bool) -> Text:
    """The host's state in one word."""
    if host.paused():
        return Text("paused", "yellow")
    if host.last_error_at:
        return Text("failing", "red")
    if busy:
        return Text("busy", "cyan")
    return Text("ok", "green") if host.last_seen else Text("new", "dim")


def row(host: Host, *, busy: bool, late: str = "") -> list[Cell]:
    """A host as cells; `late` says that its last backup is too old."""
    sources = sum(1 for source in host.sources.all() if source.enabled)
    note = pause_words(host) if host.paused() else host.last_error or (late if host.last_backup_at else "")
    via = f" via {host.jump.name}" if host.jump else ""
    return [
        host.name, host.endpoint + via, state_of(host, busy=busy), ago(host.last_seen), ago(host.last_backup_at),
        str(sources), note,
    ]  # fmt: skip


def pause_words(host: Host) -> str:
    """Until when, and why."""
    until = f"until {stamp(host.paused_until)}" if host.paused_until else "until resumed"
    return f"{until}: {host.pause_reason}" if host.pause_reason else until


def as_json(host: Host) -> dict[str, Any]:
    """A host for a program; no secret is in it."""
    names = (
        "name", "address", "port", "user", "last_seen", "last_error", "last_error_at", "last_backup_at",
        "bandwidth_kib", "before_hook", "after_hook", "hooks_touch_stacks", "keep_last", "keep_daily",
        "keep_weekly", "keep_monthly",
    )  # fmt: skip
    sources = [
        {
            "path": source.path,
            "excludes": source.excludes,
            "one_file_system": source.one_file_system,
            "enabled": source.enabled,
            "last_good_at": source.last_good_at,
        }
        for source in host.sources.all()
    ]
    return {
        **{name: getattr(host, name) for name in names},
        "backup_limit_seconds": host.backup_limit.total_seconds(),
        "jump": host.jump.name if host.jump else None,
        "backup_root": host.backup_root.path if host.backup_root else None,
        "paused": host.paused(),
        "paused_until": host.paused_until,
        "pause_reason": host.pause_reason,
        "host_keys": [key.fingerprint for key in host.keys.all()],
        "sources": sources,
    }
