"""What stands badly with the backups of the herd."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from hosts.enrol import backup_schedule
from hosts.models import Host, Source
from hosts.standing import MOST, bounded, period_of, problems
from jobs.models import ScheduleFire
from jobs.schedules import ensure
from tests.commands import herder
from tests.factories import make_host
from tests.hosts.rows import make_generation, make_source

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db
DAMAGE = "Generation 1 of /srv/data is damaged: 1 missing."


def old(days: float, host: Host | None = None, **fields: Any) -> Source:
    """A source whose last good backup is so old, of a host with a nightly schedule."""
    then = timezone.now() - timedelta(days=days)
    host = host or make_host("pi1", last_backup_at=then)
    backup_schedule(host)
    return make_source(host, last_good_at=then, **fields)


def fire(schedule: PeriodicTask, *fires: dict[str, Any]) -> None:
    """Fires of a schedule, the oldest first."""
    now = timezone.now()
    for number, fields in enumerate(fires):
        at = now - timedelta(days=len(fires) - number)
        ScheduleFire.objects.create(schedule=schedule, due_at=at, fired_at=at, ended_at=at, **fields)


SKIPPED = {"skipped": 1, "text": "pi1: skipped: job 7 is still active"}


@pytest.mark.parametrize(("days", "late"), [(0, False), (2.9, False), (3.1, True)])
def test_a_backup_older_than_three_days_is_named(days: float, late: bool) -> None:
    old(days)
    said = "The last good backup of /srv/data on pi1 is 3 days old: ./herder jobs --host pi1"
    assert problems() == ([said] if late else [])


def test_a_rare_schedule_has_three_of_its_periods() -> None:
    source = old(20)
    weekly = ensure("Weekly", {"kind": "backup"}, cron="0 3 * * 0").crontab
    PeriodicTask.objects.filter(name="Backup of pi1").update(crontab=weekly)
    assert problems() == []
    Source.objects.filter(pk=source.pk).update(last_good_at=timezone.now() - timedelta(days=22))
    assert "22 days old" in problems()[0]


@pytest.mark.parametrize("why", ["paused", "removed", "off", "no schedule", "all hosts"])
def test_who_is_not_expected_to_back_up_is_left_in_peace(why: str) -> None:
    source = old(9, enabled=why != "off")
    Host.objects.update(
        **{"paused": {"paused_at": timezone.now()}, "removed": {"removed_at": timezone.now()}}.get(why, {})
    )
    if why in ("no schedule", "all hosts"):
        PeriodicTask.objects.all().update(enabled=False)
    if why == "all hosts":
        ensure("All", {"kind": "backup", "hosts": "all"}, cron="0 3 * * *")
    assert bool(problems()) == (why == "all hosts"), source


def test_a_host_that_was_never_backed_up_is_named_also_without_a_schedule() -> None:
    make_source(make_host("pi1"))
    make_host("bare")
    assert problems() == ["pi1 was never backed up: ./herder run_job backup --host pi1"]


def test_the_one_source_that_never_worked_is_named() -> None:
    make_source(old(1).host, "/srv/new")
    assert problems() == ["/srv/new of pi1 was never backed up: ./herder run_job backup --host pi1"]


def test_damage_is_named_until_a_newer_generation_was_read_whole() -> None:
    source = old(0)
    make_generation(source, 1, verify_problem=DAMAGE)
    make_generation(source, 2, files=50, verified_at=timezone.now(), verified_files=70)
    assert problems() == [f"pi1: {DAMAGE}"]
    make_generation(source, 3, files=50, verified_whole_at=timezone.now())
    assert problems() == []


@pytest.mark.parametrize(
    ("fires", "told"),
    [
        ([SKIPPED] * 3, True),
        ([{"started": 1}, *[SKIPPED] * 3], True),
        ([SKIPPED] * 2, False),
        ([*[SKIPPED] * 3, {"started": 1}], False),
        ([SKIPPED, {"started": 1, **SKIPPED}, SKIPPED], False),
        ([{**SKIPPED, "owed": [1]}] * 3, False),
        ([{}] * 3, False),
    ],
)  # cases C18, H22
def test_a_schedule_that_only_skips_is_named(fires: list[dict[str, Any]], told: bool) -> None:
    fire(ensure("Nightly", {"kind": "backup"}, cron="0 3 * * *"), *fires)
    why = "pi1: skipped: job 7 is still active"
    said = f"The schedule Nightly was skipped 3 times in a row or more ({why}): ./herder schedules"
    assert problems() == ([said] if told else [])


@pytest.mark.parametrize(
    ("cron", "days"),
    [("30 2 * * *", 1), ("0 3 * * 0", 7), ("0 3 * * 1,4", 4), ("0 3 1 * *", 31), ("0 */6 * * *", 0.25)],
)
def test_the_period_is_the_longest_pause(cron: str, days: float) -> None:
    found = period_of(ensure("x", {"kind": "backup"}, cron=cron, zone="UTC"))
    assert timedelta(days=days * 0.9) <= found <= timedelta(days=days)


def test_the_period_of_an_interval_is_its_length() -> None:
    assert period_of(ensure("x", {"kind": "backup"}, every_minutes=90)) == timedelta(minutes=90)


def test_a_large_herd_costs_no_more_queries(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(MOST + 5):
        old(9, make_host(f"pi{number:02}"))
    with django_assert_max_num_queries(5):
        said = problems()
    assert (len(said), said[-1]) == (MOST + 1, "5 more of this sort.")


def test_few_are_all_said() -> None:
    assert bounded(str(number) for number in range(MOST)) == [str(number) for number in range(MOST)]


def test_the_list_of_hosts_says_it_too() -> None:
    old(9)
    assert "is 9 days old" in " ".join(herder("hosts").out.split())
