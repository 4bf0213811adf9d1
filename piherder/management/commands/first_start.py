"""`first_start`: what a fresh installation needs, made once; harmless to repeat."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django_celery_beat.models import PeriodicTask

from hosts.management.door import HostCommand
from hosts.models import BackupRoot
from hosts.root_admin import add_root, notes
from jobs.management.door import SUCCEEDED
from jobs.schedules import crontab_row, ensure
from piherder.accounts.people import make_first_admin

if TYPE_CHECKING:
    from argparse import ArgumentParser

ADMIN = "admin"


class Command(HostCommand):
    """Make the default backup root and schedules, and the first administrator if asked; nothing is ever overwritten."""

    help = "Make what a fresh installation needs: backup root, schedules and, with --admin, the first user."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Whether to make a user."""
        parser.add_argument("--admin", action="store_true", help="make the user admin and print its password, once")

    def work(self, **options: Any) -> int:
        """Make what is missing and say what was made."""
        self._root()
        made = [name for name, new in make_schedules().items() if new]
        if made:
            self.stdout.write(f"Schedules: {', '.join(made)}")
        if options["admin"]:
            self._admin()
        return SUCCEEDED

    def _root(self) -> None:
        if BackupRoot.objects.exists():
            return
        path = Path(settings.PIHERDER_BACKUPS).absolute()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        row = add_root(path, default=True)
        self.stdout.write(f"Backups go to {row.path}")
        for note in notes(row.capabilities):
            self.hint(note)

    def _admin(self) -> None:
        password = secrets.token_urlsafe(12)
        if not make_first_admin(ADMIN, password):
            self.stdout.write("There is an administrator already.")
            return
        self.stdout.write(f"User {ADMIN}, password {password} (shown once, never again)")


def make_schedules() -> dict[str, bool]:
    """The default schedules by name, True for those made now. They are edited in the admin and never overwritten."""
    there = set(PeriodicTask.objects.values_list("name", flat=True))
    ensure("Retention", {"kind": "retention"}, cron="30 3 * * *")
    ensure("Host facts", {"kind": "host_facts", "hosts": "all"}, every_minutes=15)
    ensure("Verify backups", {"kind": "backup_verify", "hosts": "all"}, cron="30 4 * * 0")
    ensure("Herder backup", {"kind": "herder_backup"}, cron="45 2 * * *")
    chore = {"task": "tidy", "kwargs": json.dumps({}), "crontab": crontab_row("15 3 * * *")}
    PeriodicTask.objects.get_or_create(name="Tidy", defaults=chore)
    return {name: name not in there for name in ("Retention", "Host facts", "Verify backups", "Herder backup", "Tidy")}
