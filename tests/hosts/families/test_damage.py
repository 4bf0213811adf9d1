"""What becomes of damage that a verification found: it stays known, and no later generation takes it over."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from hosts import generations
from hosts.families import backup_verify
from hosts.models import Generation
from hosts.store.layout import MANIFEST, TREE
from jobs.models import Status

from .conftest import contents, said
from .test_backup_verify import flip, fresh, verify

if TYPE_CHECKING:
    from .conftest import Pi

BAD = "sub/file 9"


@pytest.fixture
def rotten(pi: Pi) -> Generation:
    """A generation with a flipped byte in one file, found by a verification."""
    pi.run("backup")
    (kept,) = pi.good()
    flip(kept.path / TREE / BAD)
    assert verify(pi).status == Status.FAILED
    return kept


def forget_cursor(generation: Generation) -> None:
    """The next share begins at the first file, far from the damaged one."""
    Generation.objects.filter(pk=generation.pk).update(verify_cursor="")


def test_a_share_of_the_other_files_does_not_clear_it(pi: Pi, rotten: Generation) -> None:
    forget_cursor(rotten)
    assert verify(pi, 0.05).status == Status.FAILED
    assert f"1 changed (first: {BAD})" in fresh(rotten).verify_problem


def test_all_is_read_however_much_it_is(pi: Pi, rotten: Generation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_verify, "MOST_BYTES", 1)
    forget_cursor(rotten)
    assert f"(first: {BAD})" in verify(pi, 0.05).error


def test_a_cut_proof_leaves_the_problem_alone(off_pi: Pi) -> None:
    kept = off_pi.keep(verify_problem="was damaged")
    backup_verify._note(kept, backup_verify.Proof(files=5, bytes=5, cursor="sub"))
    assert fresh(kept).verify_problem == "was damaged"
    backup_verify._note(kept, backup_verify.Proof(files=5, bytes=5, cursor="sub", whole=True))
    assert fresh(kept).verify_problem == ""


def test_the_next_backup_takes_over_no_damage(pi: Pi, rotten: Generation) -> None:
    job = pi.run("backup")
    kept = pi.good()[-1]
    assert (job.status, contents(kept.path / TREE)) == (Status.SUCCEEDED, contents(pi.data))
    assert "every file is compared by content" in said(job)
    good = rotten.path / TREE / "sub/file 8"
    assert (kept.path / TREE / "sub/file 8").stat().st_ino == good.stat().st_ino


def test_the_advice_to_back_up_again_is_true(pi: Pi, rotten: Generation) -> None:
    pi.run("backup")
    assert generations.damaged().exists()
    assert verify(pi, 0.05).status == Status.SUCCEEDED
    assert not generations.damaged().exists()
    assert BAD in fresh(rotten).verify_problem


def test_only_one_run_compares_by_content(pi: Pi, rotten: Generation) -> None:
    pi.run("backup")
    assert "compared by content" not in said(pi.run("backup"))


def test_an_older_generation_with_the_same_files_is_no_safe_base(pi: Pi) -> None:
    pi.run("backup")
    pi.run("backup")
    newest = pi.good()[-1]
    flip(newest.path / TREE / BAD)  # one inode: the older one has it too
    assert verify(pi).status == Status.FAILED
    shutil.rmtree(newest.path)
    pi.run("backup")
    assert contents(pi.good()[-1].path / TREE) == contents(pi.data)


def test_a_damaged_manifest_costs_nothing_of_the_next_backup(pi: Pi) -> None:
    pi.run("backup")
    (pi.good()[0].path / MANIFEST).write_bytes(b"no manifest")
    assert verify(pi).status == Status.FAILED
    assert pi.run("backup").status == Status.SUCCEEDED
    assert contents(pi.good()[-1].path / TREE) == contents(pi.data)
