"""History does not eat the disk, and what is active or fresh is never touched (case H29)."""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from jobs import housekeeping, logs
from jobs.logs import JobLog
from jobs.models import EngineSettings, Job, Status, WorkerNode
from tests.factories import change, make_job, make_node
from tests.jobs.kinds import Chore

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import Settings

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
    assert list(logs.read(fresh.pk))


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


def old_part(job: Job) -> Path:
    """What a compression left that was killed two hours ago."""
    part = logs.path_of(job.pk).with_suffix(logs.PART)
    part.write_bytes(b"half")
    then = time.time() - 7200
    os.utime(part, (then, then))
    return part


def test_a_log_that_its_worker_could_not_compress_is_compressed() -> None:
    job = ended(1)
    housekeeping.tidy()
    assert not logs.path_of(job.pk).exists()
    assert [line.split(" ", 1)[1] for line in logs.read(job.pk)] == ["done\n"]


@pytest.mark.parametrize("fields", [{"status": Status.RUNNING, "finished_at": None}, {"finished_at": timezone.now()}])
def test_a_log_that_may_still_be_in_work_is_left(fields: dict[str, Any]) -> None:
    job = change(ended(1), attempt=uuid.uuid4(), boot=uuid.uuid4(), **fields)
    part = logs.path_of(job.pk).with_suffix(logs.PART)
    part.write_bytes(b"half")
    housekeeping.tidy()
    assert (logs.path_of(job.pk).exists(), part.exists()) == (True, True)


def test_what_a_broken_compression_left_goes() -> None:
    part = old_part(ended(1))
    housekeeping.tidy()
    assert not part.exists()


def test_a_part_goes_with_its_job() -> None:
    part = old_part(ended(1))
    logs.discard(int(part.name.split(".")[0]))
    assert not part.exists()


def test_one_log_that_cannot_be_compressed_keeps_no_other() -> None:
    first, second = ended(1), ended(1)
    logs.path_of(first.pk).with_suffix(".log.gz").mkdir()
    housekeeping.tidy()
    assert (logs.path_of(first.pk).exists(), logs.path_of(second.pk).exists()) == (True, False)


def test_foreign_files_are_left(settings: Settings) -> None:
    ended(1)
    foreign = settings.PIHERDER_LOGS / "000000" / "notes.log"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_text("mine")
    housekeeping.tidy()
    assert foreign.exists()


def test_a_log_that_cannot_be_removed_keeps_its_own_job_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "BATCH", 2)
    stuck, *_ = jobs = [ended(100) for _ in range(5)]
    path = logs.path_of(stuck.pk)
    path.unlink()
    path.mkdir()
    assert housekeeping.tidy() == "4 ended jobs removed."
    assert list(Job.objects.all()) == [jobs[0]]
    path.rmdir()
    assert housekeeping.tidy() == "1 ended jobs removed."
