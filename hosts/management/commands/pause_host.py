"""`pause_host NAME`: nothing new starts on it until it is resumed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from hosts import enrol
from hosts.management.commands.edit_host import duration
from hosts.management.door import HostCommand
from jobs.management.door import SUCCEEDED, WRONG_USE
from jobs.services import active_jobs
from jobs.spans import stamp

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(HostCommand):
    """Pause a host, or end its pause."""

    help = "Pause a host: nothing new starts on it, nothing alarms; running work ends by itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which, how long, why."""
        parser.add_argument("name")
        parser.add_argument(
            "--until", metavar="WHEN", help="a date, a time such as 2026-12-24T18:00, or a length such as 2h"
        )
        parser.add_argument("--reason", default="")
        parser.add_argument("--resume", action="store_true", help="end the pause")

    def work(self, **options: Any) -> int:
        """Pause or resume."""
        host = enrol.host_named(options["name"])
        if options["resume"]:
            if options["until"] or options["reason"]:
                raise CommandError(
                    "--resume ends a pause and takes neither --until nor --reason.", returncode=WRONG_USE
                )
            enrol.resume(host)
            self.stdout.write(f"{host.name} is resumed.")
            return SUCCEEDED
        until = moment(options["until"]) if options["until"] else None
        enrol.pause(host, options["reason"], until)
        still = f" {len(active)} active job(s) end by themselves." if (active := active_jobs(host.pk)) else ""
        end = f"until {stamp(until)}" if until else f"until ./herder pause_host {host.name} --resume"
        self.stdout.write(f"{host.name} is paused {end}.{still}")
        return SUCCEEDED


def moment(text: str, now: datetime | None = None) -> datetime:
    """A moment from a date (its beginning), a local date and time, or a length from `now`. Raises CommandError."""
    try:
        return (now or timezone.now()) + duration(text)
    except OverflowError:
        raise CommandError(f"{text} from now is beyond the last year there is.", returncode=WRONG_USE) from None
    except ValueError:
        pass
    try:
        day = parse_date(text)
        found = datetime(day.year, day.month, day.day) if day else parse_datetime(text)
    except ValueError:  # well formed, but no such day
        found = None
    if found is None:
        example = f"{timezone.localtime() + timedelta(days=1):%Y-%m-%dT%H:%M}"
        raise CommandError(f"--until takes a moment such as {example}, or 2h, not {text!r}.", returncode=WRONG_USE)
    return timezone.make_aware(found) if timezone.is_naive(found) else found
