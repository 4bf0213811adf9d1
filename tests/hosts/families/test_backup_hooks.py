"""The owner's commands around a backup of a real host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.models import Host, Source
from jobs.models import Status

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Pi


def test_hooks_run_around_the_copy(pi: Pi, tmp_path: Path) -> None:  # case C20
    pi.edit(before_hook=f"echo before >> '{tmp_path}/hooks'", after_hook=f"echo after >> '{tmp_path}/hooks'")
    assert pi.run("backup").status == Status.SUCCEEDED
    assert (tmp_path / "hooks").read_text().split() == ["before", "after"]


def test_the_hook_after_runs_also_when_the_copy_fails(pi: Pi, tmp_path: Path) -> None:  # case C20
    pi.edit(after_hook=f"echo after >> '{tmp_path}/hooks'")
    Source.objects.filter(pk=pi.source.pk).update(path="/nowhere/at/all")
    assert pi.run("backup").status == Status.FAILED
    assert (tmp_path / "hooks").read_text() == "after\n"


def test_a_failing_hook_before_stops_the_copy_and_still_runs_the_one_after(pi: Pi, tmp_path: Path) -> None:
    pi.edit(before_hook="echo cannot dump >&2; exit 3", after_hook=f"echo after >> '{tmp_path}/hooks'")
    job = pi.run("backup")
    assert job.error == "The command before the backup failed with exit code 3: cannot dump"
    assert ((tmp_path / "hooks").exists(), len(pi.good())) == (True, 0)


def test_a_failing_hook_after_a_good_copy_fails_the_job_but_keeps_the_generation(pi: Pi) -> None:
    pi.edit(after_hook="echo no such service; exit 5")
    job = pi.run("backup")
    assert job.error == "The command after the backup failed with exit code 5: no such service"
    assert (job.status, len(pi.good())) == (Status.FAILED, 1)
    assert Host.objects.get(pk=pi.host.pk).last_backup_at is None


def test_a_failing_hook_after_a_failed_copy_hides_nothing(pi: Pi) -> None:
    pi.edit(after_hook="exit 5")
    Source.objects.filter(pk=pi.source.pk).update(path="/nowhere/at/all")
    job = pi.run("backup")
    assert "/nowhere/at/all" in job.error
    assert job.error.endswith("The command after the backup failed with exit code 5: it said nothing")
    assert [source["ok"] for source in job.result["sources"]] == [False]
