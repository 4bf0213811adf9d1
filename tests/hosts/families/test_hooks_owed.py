"""The command after a backup that was cut off is made up for by whoever meets the host next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from hosts import hooks
from hosts.models import Host
from hosts.store.lock import host_folder
from jobs.models import Job, Status
from tests.factories import change, make_node, picked_up_by

from .conftest import said

if TYPE_CHECKING:
    from .conftest import Pi

HAS_RUN = "The command after the backup, owed by an earlier one, has run."


@pytest.fixture
def torn(pi: Pi, tmp_path: Path) -> Pi:
    """A host whose last backup was killed between its two commands."""
    pi.edit(
        before_hook=f"echo before >> '{tmp_path}/hooks'",
        after_hook=f"echo after >> '{tmp_path}/hooks'",
        after_hook_owed_at=timezone.now(),
    )
    return pi


def owes(pi: Pi) -> bool:
    return Host.objects.get(pk=pi.host.pk).after_hook_owed_at is not None


def ran(tmp_path: Path) -> list[str]:
    path = tmp_path / "hooks"
    return path.read_text().split() if path.exists() else []


def test_the_row_says_that_it_is_owed_before_the_first_command_runs(pi: Pi, tmp_path: Path) -> None:  # case C20
    seen: list[bool] = []
    pi.edit(before_hook="true", after_hook="true")
    hear = hooks._carry_out

    def listen(*args: object) -> None:
        seen.append(owes(pi))
        hear(*args)  # type: ignore[arg-type]  # passed on as they are

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hooks, "_carry_out", listen)
        assert pi.run("backup").status == Status.SUCCEEDED
    assert (seen, owes(pi)) == ([True, True], False)


def test_reading_facts_makes_up_for_it_and_says_so(torn: Pi, tmp_path: Path) -> None:  # case C20
    job = torn.run("host_facts")
    assert (job.status, job.summary.endswith(f". {HAS_RUN}")) == (Status.SUCCEEDED, True)
    assert (ran(tmp_path), owes(torn)) == (["after"], False)
    assert HAS_RUN not in torn.run("host_facts").summary


def test_the_next_backup_makes_up_for_it_by_its_own(torn: Pi, tmp_path: Path) -> None:
    job = torn.run("backup")
    assert job.summary.endswith(" The command after the backup, owed by an earlier one, has run.")
    assert "An earlier backup ended without its command" in said(job)
    assert (ran(tmp_path), owes(torn)) == (["before", "after"], False)


def test_one_that_fails_is_said_and_stays_owed(torn: Pi) -> None:
    torn.edit(after_hook="echo no such service; exit 5")
    job = torn.run("host_facts")
    assert job.status == Status.SUCCEEDED
    assert "and failed: The command after the backup failed with exit code 5: no such service" in job.summary
    assert owes(torn)


def test_one_that_fails_after_its_own_backup_is_owed(pi: Pi) -> None:
    pi.edit(before_hook="true", after_hook="exit 5")
    assert pi.run("backup").status == Status.FAILED
    assert owes(pi)


def test_a_command_that_is_gone_is_owed_no_more(torn: Pi, tmp_path: Path) -> None:
    torn.edit(after_hook="")
    torn.run("host_facts")
    assert (ran(tmp_path), owes(torn)) == ([], False)


def test_one_that_takes_too_long_is_given_up_on(torn: Pi, monkeypatch: pytest.MonkeyPatch) -> None:
    torn.edit(after_hook="sleep 60")
    monkeypatch.setattr(hooks, "OWED_LIMIT", 0.5)
    job = torn.run("host_facts")
    assert (job.status, "took too long" in job.summary, owes(torn)) == (Status.SUCCEEDED, True, True)


def test_facts_leave_it_to_a_backup_that_is_at_work(torn: Pi, tmp_path: Path) -> None:
    backup: Job = picked_up_by(make_node("w2@pi"), torn.request("backup"))
    torn.run("host_facts")
    assert (ran(tmp_path), owes(torn)) == ([], True)
    change(backup, attempt=None)  # it only waits for its turn now
    torn.run("host_facts")
    assert ran(tmp_path) == ["after"]


def test_facts_leave_it_while_a_copy_works_in_the_folder(torn: Pi, tmp_path: Path) -> None:
    with host_folder(Path(torn.root.path), "pi1"):
        torn.run("host_facts")
    assert ran(tmp_path) == []


def test_without_the_backup_disk_it_runs_all_the_same(torn: Pi, tmp_path: Path) -> None:
    (Path(torn.root.path) / ".piherder-root.json").unlink()
    torn.run("host_facts")
    assert ran(tmp_path) == ["after"]


@pytest.mark.parametrize("field", ["before_hook", "after_hook"])
def test_a_single_command_owes_nothing(pi: Pi, field: str) -> None:
    pi.edit(**{field: "exit 1"})
    assert pi.run("backup").status == Status.FAILED
    assert not owes(pi)
