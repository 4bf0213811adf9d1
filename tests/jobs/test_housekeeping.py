"""History does not eat the disk, and what is active or fresh is never touched (case H29)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import housekeeping, logs
from jobs.logs import JobLog
from jobs.models import EngineSettings, Job, Status, WorkerNode
from tests.factories import change, make_job, make_node
from tests.jobs.kinds import Chore

pytestmark = pytest.mark.django_db


def ended(days: float, kind: str = "loose") -> Job:
    """A job that ended so many days ago, with a log."""
    job = make_job(kind)
    log = JobLog(job.pk)
    log.write("done")
    log.close()
    job.lanes.all().delete()
    return change(job, status=Status.SUCCEEDED, finished_at=timezone.now() - timedelta(days=days))


def test_old_jobs_go_with_their_logs_and_events() -> None:
    old, fresh = ended(91), ended(89)
    assert housekeeping.tidy() == "1 ended jobs removed."
    assert list(Job.objects.all()) == [fresh]
    assert not logs.path_of(old.pk).exists()
    assert logs.path_of(fresh.pk).exists()


def test_the_site_says_how_long() -> None:
    EngineSettings.objects.create(pk=1, keep_job_days=5)
    ended(6)
    assert housekeeping.tidy().startswith("1 ")


def test_a_kind_says_how_long_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chore, "keep_for", timedelta(days=1))
    ended(2, "chore")
    ended(2, "loose")
    housekeeping.tidy()
    assert [job.kind for job in Job.objects.all()] == ["loose"]


def test_an_active_job_stays_whatever_its_age() -> None:
    change(make_job("loose"), created_at=timezone.now() - timedelta(days=999))
    assert housekeeping.tidy().startswith("0 ")


def test_many_go_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "BATCH", 3)
    for _ in range(8):
        ended(100)
    assert housekeeping.tidy() == "8 ended jobs removed."


def test_dead_workers_are_forgotten_after_a_week() -> None:
    make_node("alive@pi")
    make_node("long-dead@pi", dead_at=timezone.now() - timedelta(days=8))
    make_node("just-dead@pi", dead_at=timezone.now())
    housekeeping.tidy()
    assert set(WorkerNode.objects.values_list("name", flat=True)) == {"alive@pi", "just-dead@pi"}
