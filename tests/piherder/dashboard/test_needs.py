"""What needs a person: each sort once, mended ones never, the worst first."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from hosts.models import Host
from jobs.models import Failure, Job, Status
from jobs.schedules import ensure
from piherder.dashboard.needs import MOST, NAMED, needs
from piherder.dashboard.recent import MOST as LOOKED_AT
from piherder.dashboard.recent import Recent, recent
from tests.factories import change, make_host, make_job, make_node, running_on
from tests.hosts.rows import disk, know, make_generation, make_source
from tests.piherder.dashboard.rows import asked, failed, past, said

pytestmark = pytest.mark.django_db
NO_SOURCES = "warn pi1: Nothing of this host is backed up: it has no sources."


def healthy(name: str = "pi1") -> Host:
    """A host of which nothing is wanting."""
    now = timezone.now()
    host = make_host(name, last_seen=now, last_backup_at=now)
    make_generation(make_source(host, last_good_at=now), verified_at=now)
    return host


def test_a_healthy_herd_needs_nobody() -> None:
    past("backup", healthy(), ago=timedelta(hours=2))
    assert said() == []


def test_a_failed_job_is_named_with_its_reason_and_leads_to_it() -> None:
    job = failed("backup", healthy(), error="The disk is full.")
    (need,) = asked()
    assert (need.level, need.subject, need.words) == ("bad", "pi1", "Back up failed: The disk is full.")
    assert (need.link, need.since) == (reverse("job", args=[job.pk]), job.finished_at)


def test_a_failure_that_was_mended_is_over() -> None:
    host = healthy()
    failed("backup", host, hours=3)
    past("backup", host, ago=timedelta(hours=2))
    assert said() == []


def test_a_failure_is_not_mended_by_other_work_other_hosts_or_a_cancelled_try() -> None:
    host, other = healthy(), healthy("pi2")
    failed("backup", host, hours=3)
    past("backup_verify", host, ago=timedelta(hours=2))
    past("backup", other, ago=timedelta(hours=2))
    past("backup", host, ago=timedelta(hours=1), status=Status.CANCELLED)
    assert said() == ["bad pi1: Back up failed: It broke."]


def test_of_several_failures_of_the_same_the_last_is_named() -> None:
    host = healthy()
    failed("backup", host, hours=3, error="First.")
    failed("backup", host, hours=2, error="Second.")
    assert said() == ["bad pi1: Back up failed: Second."]


def test_work_without_a_host_fails_too() -> None:
    job = failed("retention", None)
    assert said() == [f"bad Job {job.pk}: Thin out backups failed: It broke."]


def test_a_kind_that_is_gone_keeps_its_name() -> None:
    change(failed("backup", healthy()), kind="gone")
    assert said() == ["bad pi1: gone failed: It broke."]


def test_a_host_without_contact_is_named_once() -> None:
    host = healthy()
    Host.objects.update(last_error="It did not answer.", last_error_at=timezone.now())
    failed("backup", host, failure=Failure.HOST_UNREACHABLE)
    assert said() == ["bad pi1: No contact: It did not answer."]
    failed("backup_verify", host, failure=Failure.ERROR)
    assert len(said()) == 2


def test_what_failed_on_a_host_that_was_removed_is_history() -> None:
    failed("backup", healthy())
    Host.objects.update(removed_at=timezone.now())
    assert said() == []


def test_a_paused_host_says_so_and_nothing_else() -> None:
    make_source(make_host("pi1", paused_at=timezone.now(), pause_reason="new disk", last_error_at=timezone.now()))
    assert said() == ["paused pi1: Paused: new disk."]


def test_a_host_that_was_never_backed_up_is_told_once() -> None:
    make_source(make_host("pi1"))
    assert said() == ["bad pi1: pi1 was never backed up."]


def test_an_old_backup_is_told_and_not_while_the_herd_is_on_hold() -> None:
    host = healthy()
    ensure("Night", {"kind": "backup", "hosts": "all"}, cron="0 3 * * *")
    host.sources.update(last_good_at=timezone.now() - timedelta(days=9))
    assert said() == ["bad pi1: The last good backup of /srv/data on pi1 is 9 days old."]
    assert said(held=True) == []


def test_a_host_without_sources_is_told() -> None:
    make_host("pi1")
    assert said() == [NO_SOURCES]


def test_a_backup_that_was_never_proven_is_told() -> None:
    make_generation(make_source(make_host("pi1", last_backup_at=timezone.now()), last_good_at=timezone.now()))
    assert said() == ["warn pi1: No backup of this host was proven restorable yet."]


def test_what_the_facts_warn_of_is_told() -> None:
    know(healthy(), disks=(disk("/", 97),))
    assert said() == ["warn pi1: Disk / is 97 % full."]


def test_damage_is_told_without_the_name_twice() -> None:
    host = healthy()
    host.sources.get().generations.update(verify_problem="Generation 1 of /srv/data is damaged: 1 missing.")
    assert "bad pi1: Generation 1 of /srv/data is damaged: 1 missing." in said()


def test_the_worst_comes_first() -> None:
    make_host("pi1")
    failed("backup", healthy("pi2"))
    make_host("pi3", paused_at=timezone.now())
    assert [line.split()[0] for line in said()] == ["bad", "warn", "paused"]


def test_a_warning_of_many_hosts_is_said_once() -> None:
    for number in range(NAMED + 2):
        make_host(f"pi{number}")
    names = ", ".join(f"pi{number}" for number in range(NAMED))
    assert said() == [f"warn 10 hosts: Nothing of this host is backed up: it has no sources. ({names} and 2 more)"]


def test_two_hosts_are_told_apart() -> None:
    make_host("pi1")
    make_host("pi2")
    assert len(said()) == 2


def test_there_is_an_end_to_the_list() -> None:
    for number in range(MOST + 3):
        failed("backup", healthy(f"pi{number}"), error=f"Fault {number}.")
    found = recent()
    listed = needs([], Recent(found.now, ended=found.ended), [], held=True)
    assert (len(listed.shown), listed.more) == (0, 0)  # hosts that nobody knows are history
    assert len(asked()) == MOST


# --- workers


def old_job() -> Job:
    """One that was asked for two minutes ago."""
    return change(make_job("backup", healthy()), created_at=timezone.now() - timedelta(minutes=2))


def test_jobs_that_no_worker_takes_are_told() -> None:
    old_job()
    assert said() == ["bad Workers: 1 job waits and no worker takes any: start one, or ask ./herder status."]
    change(make_job("retention"), created_at=timezone.now())
    assert said()[0].startswith("bad Workers: 2 jobs wait and no worker")


def test_a_fresh_job_and_one_behind_another_are_no_fault() -> None:
    change(old_job(), created_at=timezone.now())
    assert said() == []
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=2))
    running_on(make_node(), make_job("retention"))
    assert said() == []


def test_only_the_newest_jobs_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOOKED_AT >= 1000
    monkeypatch.setattr("piherder.dashboard.recent.MOST", 2)
    host = healthy()
    failed("backup", host)
    waiting = make_job("backup_verify", host)
    for _ in range(2):
        past("host_facts", host, ago=timedelta(hours=1))
    found = recent()
    assert (found.active, found.failed(), len(found.ended)) == ([waiting], [], 2)
