"""What becomes of damage that a verification found: it stays known, and no later generation takes it over."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from hosts import generations
from hosts.families import backup_verify
from hosts.models import Generation, Source
from hosts.store.layout import MANIFEST, TREE
from hosts.store.manifest import hash_file, write_manifest
from jobs.models import Job, Status

from .conftest import cancel, carry_out, contents, meanwhile, said, shelve
from .test_backup_verify import flip, fresh, verify, without_checksums

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


def test_what_was_answered_stays_so(pi: Pi, rotten: Generation) -> None:
    pi.run("backup")
    verify(pi)
    verify(pi, 0.05)
    assert not generations.damaged().exists()
    pi.good()[-1].delete()
    assert not generations.damaged().exists()
    assert BAD in fresh(rotten).verify_problem
    assert generations.is_doubtful(rotten)


def test_damage_found_again_is_open_again(pi: Pi, rotten: Generation) -> None:
    pi.run("backup")
    verify(pi)
    pi.good()[-1].delete()
    assert verify(pi, 0.05).status == Status.FAILED
    assert generations.damaged().get() == rotten


def test_files_without_a_checksum_keep_no_alarm(pi: Pi, rotten: Generation) -> None:
    pi.run("backup")
    newest = pi.good()[-1].path
    (newest / MANIFEST).unlink()
    known = {BAD.encode(): hash_file(os.fsencode(newest / TREE / BAD), "md5")}
    write_manifest(newest / TREE, known, None, newest / MANIFEST)
    assert verify(pi).summary.endswith("all as written. 33 files have no checksum to compare with.")
    assert not generations.damaged().exists()


def test_where_nothing_can_be_compared_the_alarm_stays(pi: Pi, rotten: Generation) -> None:
    pi.run("backup")
    without_checksums(pi.good()[-1])
    for _ in range(2):
        summary = verify(pi).summary
        assert "34 files have no checksum" in summary
        assert summary.endswith("is still open; the next run reads on.")
        assert generations.damaged().exists()


# --- what takes more than one run --------------------------------------------------------------------------------


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run reads the 4 MiB of `sparse` and little more, and no sample finds anything by chance."""
    monkeypatch.setattr(backup_verify, "WHOLE_BYTES", (4 << 20) + 300)
    monkeypatch.setattr(backup_verify, "SAMPLE", 0)


@pytest.mark.usefixtures("in_parts")
def test_the_whole_may_take_several_runs_and_generations(off_pi: Pi) -> None:
    old = off_pi.keep(verify_problem="was damaged")
    off_pi.keep()
    job = verify(off_pi, 0.05)
    assert job.summary.endswith(f"Damage of {off_pi.data} is still open; the next run reads on.")
    assert generations.damaged().get() == old
    newest = off_pi.keep()
    job = verify(off_pi, 0.05)
    assert (job.status, "still open" in job.summary, generations.damaged().exists()) == (Status.SUCCEEDED, False, False)
    assert "restored and compared: all as written." in job.summary
    assert (fresh(newest).verified_whole_at is None, fresh(old).verify_problem) == (False, "was damaged")
    assert not Generation.objects.exclude(whole_cursor="").exists()


@pytest.mark.usefixtures("in_parts")
def test_damage_in_the_second_part_makes_it_begin_anew(off_pi: Pi) -> None:
    kept = off_pi.keep(verify_problem="was damaged")
    flip(kept.path / TREE / BAD)
    verify(off_pi)
    verify(off_pi)
    assert BAD in fresh(kept).verify_problem
    assert not Generation.objects.exclude(whole_cursor="").exists()


def test_what_takes_long_comes_last(off_pi: Pi) -> None:
    off_pi.keep(verify_problem="was damaged")
    shelve(Source.objects.create(host=off_pi.host, path="/zzz", folder="zzz"), off_pi.root, off_pi.data)
    lines = said(verify(off_pi, 0.05))
    assert lines.index("== verify /zzz") < lines.index(f"== verify {off_pi.data}")


IMAGE = "zz-image"  # the last file


@pytest.fixture
def boundless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run reads however much there is."""
    for name in ("MOST_BYTES", "WHOLE_BYTES"):
        monkeypatch.setattr(backup_verify, name, 1 << 40)


def with_image(generation: Generation, length: int) -> Generation:
    """The generation with one more file, which takes long to read."""
    with (generation.path / TREE / IMAGE).open("wb") as image:
        image.truncate(length)
    known = {b"sub/file 1": hash_file(os.fsencode(generation.path / TREE / "sub/file 1"), "md5")}
    (generation.path / MANIFEST).unlink()
    write_manifest(generation.path / TREE, known, None, generation.path / MANIFEST)
    return generation


def is_in_image(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, progress_done=34).exists()


@pytest.mark.usefixtures("boundless")
@pytest.mark.parametrize(("problem", "field"), [("", "verify_cursor"), ("was damaged", "whole_cursor")])
def test_a_stop_in_mid_file_comes_at_once_and_loses_nothing(off_pi: Pi, problem: str, field: str) -> None:
    kept = with_image(off_pi.keep(verify_problem=problem), 400 << 30)
    job = off_pi.request("backup_verify", share=1.0)
    with meanwhile(lambda: is_in_image(job), lambda: cancel(job)):
        carry_out(job)
    assert (job.status, fresh(kept).verified_at, fresh(kept).verify_problem) == (Status.CANCELLED, None, problem)
    assert getattr(fresh(kept), field) == "sub/file 9"
    with_image(kept, 5)
    job = verify(off_pi, 0.02)
    assert (job.status, fresh(kept).verify_problem) == (Status.SUCCEEDED, "")
    assert "1 files, 0 MiB re-read" in said(job)


@pytest.mark.usefixtures("boundless")
@pytest.mark.parametrize("problem", ["", "was damaged"])
def test_damage_found_before_a_stop_is_noted(off_pi: Pi, problem: str) -> None:
    kept = with_image(off_pi.keep(verify_problem=problem), 400 << 30)
    flip(kept.path / TREE / "sub/file 1")
    job = off_pi.request("backup_verify", share=1.0)
    with meanwhile(lambda: is_in_image(job), lambda: cancel(job)):
        carry_out(job)
    assert (job.status, fresh(kept).whole_cursor) == (Status.CANCELLED, "")
    assert "2 changed (first: hard)" in fresh(kept).verify_problem


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
