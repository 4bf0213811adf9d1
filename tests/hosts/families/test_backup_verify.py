"""Verification of generations while their host is down: it reads the backup disk alone."""

from __future__ import annotations

import gzip
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hosts.families import backup_verify
from hosts.models import Generation, Source
from hosts.store.layout import MANIFEST, TREE
from hosts.store.lock import host_folder
from hosts.store.manifest import write_manifest
from jobs.models import Failure, Status, WaitingOn
from tests.hosts.store.build import fill_disk

from .conftest import said, shelve

if TYPE_CHECKING:
    import pytest

    from jobs.models import Job

    from .conftest import Pi


def verify(pi: Pi, share: float = 1.0) -> Job:
    return pi.run("backup_verify", share=share)


def fresh(generation: Generation) -> Generation:
    return Generation.objects.get(pk=generation.pk)


def flip(path: Path) -> None:
    """One byte, with the time as it was: what a bad disk does."""
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def nothing_in_scratch(pi: Pi) -> bool:
    return not list(pi.folder.parent.glob(f"{backup_verify.SCRATCH}*"))


def test_a_whole_generation_is_proven_and_says_so(off_pi: Pi) -> None:
    kept = off_pi.keep()
    job = verify(off_pi)
    assert (job.status, job.summary[:10], job.summary[-17:]) == (Status.SUCCEEDED, "54 files (", ": all as written.")
    proven = fresh(kept)
    assert (proven.verified_files, proven.verify_problem, proven.verified_at is None) == (54, "", False)
    assert proven.verified_whole_at
    assert nothing_in_scratch(off_pi)


def test_a_share_and_a_sample_are_not_the_whole(off_pi: Pi) -> None:
    kept = off_pi.keep()
    verify(off_pi, 0.6)  # 21 of 34 files, and 20 as a sample
    assert (fresh(kept).verified_files > kept.files, fresh(kept).verified_whole_at) == (True, None)


def without_checksums(generation: Generation) -> Generation:
    """As rsync leaves it whose checksums nobody could take over."""
    (generation.path / MANIFEST).unlink()
    write_manifest(generation.path / TREE, {}, None, generation.path / MANIFEST)
    return generation


def test_what_has_no_checksum_is_never_called_proven(off_pi: Pi) -> None:
    kept = without_checksums(off_pi.keep())
    job = verify(off_pi)
    nothing = "Nothing was proven: no file was compared. 34 files have no checksum to compare with."
    assert (job.status, job.summary) == (Status.SUCCEEDED, nothing)
    assert fresh(kept).verify_cursor
    assert fresh(kept).verified_at is None


def test_only_what_was_compared_counts(off_pi: Pi) -> None:
    kept = off_pi.keep()
    other = Source.objects.create(host=off_pi.host, path="/zzz", folder="zzz")
    without_checksums(shelve(other, off_pi.root, off_pi.data))
    job = verify(off_pi)
    assert (job.summary[:10], fresh(kept).verified_files) == ("54 files (", 54)
    assert job.summary.endswith("all as written. 34 files have no checksum to compare with.")


def test_the_host_s_own_limit_counts(off_pi: Pi) -> None:
    off_pi.edit(backup_limit=timedelta(hours=5))
    assert off_pi.request("backup_verify").time_limit == timedelta(hours=5)


def test_a_missed_verification_is_made_up_for() -> None:
    assert backup_verify.BackupVerify.catch_up


def test_a_flipped_byte_is_found_and_noted(off_pi: Pi) -> None:
    kept = off_pi.keep()
    flip(kept.path / TREE / "sub" / "file 9")
    job = verify(off_pi)
    assert job.error.startswith(f"Generation 1 of {off_pi.data} is damaged: ")
    assert "1 changed (first: sub/file 9)" in job.error
    assert (fresh(kept).verify_problem, fresh(kept).verified_at) == (job.error[:300], None)
    assert nothing_in_scratch(off_pi)


def test_a_missing_file_is_found(off_pi: Pi) -> None:
    (off_pi.keep().path / TREE / "sub" / "file 9").unlink()
    assert "1 missing (first: sub/file 9)" in verify(off_pi).error


def test_a_truncated_manifest_is_noted_and_the_other_source_still_proven(off_pi: Pi, tmp_path: Path) -> None:
    kept = off_pi.keep()
    manifest = kept.path / MANIFEST
    manifest.write_bytes(gzip.compress(gzip.decompress(manifest.read_bytes())[:200]))
    other = Source.objects.create(host=off_pi.host, path="/zzz", folder="zzz")
    second = shelve(other, off_pi.root, off_pi.data)
    job = verify(off_pi)
    assert (job.status, "manifest" in job.error, "is damaged" in job.error) == (Status.FAILED, True, True)
    assert "manifest" in fresh(kept).verify_problem
    assert (fresh(second).verified_files, nothing_in_scratch(off_pi)) == (54, True)


def test_a_generation_that_is_gone_from_the_disk_comes_to_light(off_pi: Pi) -> None:
    off_pi.keep()
    shutil.rmtree(off_pi.keep().path)
    assert "its folder is not on the backup disk any more" in verify(off_pi).error


def test_an_unmounted_disk_is_no_damage(off_pi: Pi) -> None:
    kept = off_pi.keep()
    (Path(off_pi.root.path) / ".piherder-root.json").unlink()
    assert (verify(off_pi).failure, fresh(kept).verify_problem) == (Failure.NOT_MOUNTED, "")


def test_each_run_goes_on_where_the_last_one_ended_also_in_a_newer_generation(off_pi: Pi) -> None:
    off_pi.keep()
    verify(off_pi, 0.1)
    first = off_pi.good()[0].verify_cursor
    second = off_pi.keep()
    verify(off_pi, 0.1)
    assert "" < first < fresh(second).verify_cursor


def test_a_proof_of_the_whole_clears_the_problem(off_pi: Pi) -> None:
    kept = off_pi.keep(verify_problem="was damaged")
    job = verify(off_pi, 0.1)
    assert (fresh(kept).verify_problem, fresh(kept).verified_files) == ("", kept.files + 20)
    assert "damage was found before, so all of it is read" in said(job)


def test_what_a_killed_run_left_in_scratch_goes(off_pi: Pi) -> None:
    off_pi.keep()
    (off_pi.folder.parent / ".verify-killed").mkdir()
    verify(off_pi, 0.1)
    assert nothing_in_scratch(off_pi)


def test_a_full_disk_is_no_damage(off_pi: Pi, full_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = off_pi.keep()
    fill_disk(full_disk)
    monkeypatch.setattr(backup_verify, "SCRATCH", os.path.relpath(full_disk, off_pi.folder.parent) + "/s-")
    job = verify(off_pi, 0.1)
    assert (job.failure, fresh(kept).verify_problem) == (Failure.NO_SPACE, "")


def test_a_folder_in_use_is_a_wait(off_pi: Pi) -> None:
    off_pi.keep()
    with host_folder(Path(off_pi.root.path), "pi1"):
        job = verify(off_pi)
    assert (job.status, job.waiting_on) == (Status.PENDING, WaitingOn.LOCK)


def test_without_generations_there_is_nothing_to_verify(off_pi: Pi) -> None:
    assert verify(off_pi).error == "pi1 has no good generation to verify: back it up first."
    assert backup_verify.BackupVerify().schedule_skip(off_pi.host.pk) == "it has no backups yet"
    off_pi.keep()
    assert backup_verify.BackupVerify().schedule_skip(off_pi.host.pk) == ""
