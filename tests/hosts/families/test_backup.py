"""Backups of a real host by a real rsync, carried out as a worker does."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings

from hosts.families import backup
from hosts.models import Generation, GenerationStatus, Host, Source
from hosts.store.layout import TREE, list_generations
from hosts.store.lock import host_folder
from hosts.store.manifest import read_manifest, write_manifest
from hosts.store.root import create_marker
from jobs.models import Failure, Lane, Status, WaitingOn
from jobs.mutex import client, key

from .conftest import MakePi, Pi, contents


def tree(generation: Generation) -> Path:
    return generation.path / TREE


def test_a_first_backup_is_the_source_to_the_byte(pi: Pi) -> None:
    job = pi.run("backup")
    assert (job.status, job.failure) == (Status.SUCCEEDED, "")
    assert contents(tree(pi.good()[0])) == contents(pi.data)
    assert job.summary.startswith("1 source, 34 files")


def test_hard_links_holes_and_attributes_survive(pi: Pi) -> None:  # cases C10 C12
    pi.run("backup")
    copy = tree(pi.good()[0])
    assert (copy / "hard").stat().st_ino == (copy / "sub" / "file 1").stat().st_ino
    assert (copy / "sparse").stat().st_blocks < 100
    assert os.getxattr(copy / "-dash", "user.note") == b"kept"


def test_an_unchanged_file_is_linked_and_a_changed_one_is_not(pi: Pi) -> None:
    pi.run("backup")
    (pi.data / "sub" / "file 3").write_text("new")
    pi.run("backup")
    first, second = map(tree, pi.good())
    assert (pi.good()[1].changed_files, pi.good()[1].changed_bytes) == (1, 3)
    assert (first / "sub/file 4").stat().st_ino == (second / "sub/file 4").stat().st_ino
    assert (first / "sub/file 3").read_text() != (second / "sub/file 3").read_text() == "new"


def test_checksums_of_the_manifest_are_carried_over(pi: Pi) -> None:
    pi.run("backup")
    pi.run("backup")
    entries = [entry for entry in read_manifest(pi.good()[1].path / "manifest.jsonl.gz") if entry.kind == "file"]
    assert entries
    assert all(entry.checksum for entry in entries if entry.size)


def test_a_good_run_leaves_nothing_held(pi: Pi) -> None:
    pi.run("backup")
    assert not Lane.objects.exists()
    assert client().get(key(pi.host.pk)) is None
    assert not [path for path in pi.good()[0].path.parent.iterdir() if path.name.startswith(".partial")]


def test_dates_move_only_with_a_good_run(pi: Pi) -> None:
    pi.run("backup")
    before = Host.objects.get(pk=pi.host.pk).last_backup_at
    Source.objects.create(host=pi.host, path=f"{pi.data}-missing", folder="missing")
    job = pi.run("backup")
    assert (job.status, "is not a folder" in job.error) == (Status.FAILED, True)
    assert Host.objects.get(pk=pi.host.pk).last_backup_at == before


def test_a_backup_of_some_sources_moves_no_date_of_the_host(pi: Pi) -> None:
    other = Source.objects.create(host=pi.host, path=f"{pi.data}/sub", folder="other")
    off = Source.objects.create(host=pi.host, path=f"{pi.data}/off", folder="off", enabled=False)
    pi.run("backup", sources=other.path)
    assert Host.objects.get(pk=pi.host.pk).last_backup_at is None
    pi.run("backup", sources=f"{other.path}\n{pi.source.path}")
    assert Host.objects.get(pk=pi.host.pk).last_backup_at is not None
    assert off.generations.count() == 0


def test_one_failing_source_leaves_the_others_their_generation(pi: Pi) -> None:  # case C02
    missing = Source.objects.create(host=pi.host, path=f"{pi.data}-missing", folder="missing")
    job = pi.run("backup")
    missing.refresh_from_db()
    assert [source["ok"] for source in job.result["sources"]] == [True, False]
    assert (len(pi.good()), missing.last_good_at) == (1, None)


def test_excludes_are_left_out(pi: Pi) -> None:
    Source.objects.filter(pk=pi.source.pk).update(excludes=["/sub/", "*.tmp"])
    pi.run("backup")
    assert not (tree(pi.good()[0]) / "sub").exists()


def test_only_the_named_sources_are_copied(pi: Pi) -> None:
    other = Source.objects.create(host=pi.host, path=f"{pi.data}/sub", folder="other")
    pi.run("backup", sources=other.path)
    assert (len(pi.good()), other.generations.count()) == (0, 1)


def test_an_unknown_source_is_refused_in_words(pi: Pi) -> None:
    assert pi.run("backup", sources="/nowhere").error == "/nowhere is no enabled source of pi1."


def test_a_host_without_sources_says_how_to_add_one(pi: Pi) -> None:
    Source.objects.all().delete()
    assert "add one with" in pi.run("backup").error


@pytest.mark.parametrize("left", [0, 5])
def test_a_source_that_shrank_is_a_question(pi: Pi, left: int) -> None:  # case C15
    pi.run("backup")
    for path in sorted((pi.data / "sub").iterdir())[left:]:
        path.unlink()
    for name in os.listdir(os.fsencode(pi.data)):
        if name != b"sub" and not left:
            os.unlink(os.fsencode(pi.data) + b"/" + name)
    job = pi.run("backup")
    assert (job.failure, len(pi.good())) == (Failure.QUESTION, 1)
    assert "accept_shrink=yes" in job.error


def test_a_question_answered_with_yes_is_a_backup(pi: Pi) -> None:
    pi.run("backup")
    for path in (pi.data / "sub").iterdir():
        path.unlink()
    assert pi.run("backup").failure == Failure.QUESTION
    assert pi.run("backup", accept_shrink=True).status == Status.SUCCEEDED
    assert len(pi.good()) == 2


def test_an_unmounted_disk_is_named_and_nothing_is_written(pi: Pi) -> None:
    (Path(pi.root.path) / ".piherder-root.json").unlink()
    job = pi.run("backup")
    assert (job.failure, "not mounted" in job.error) == (Failure.NOT_MOUNTED, True)
    assert os.listdir(pi.root.path) == [".trash"]


def test_a_host_without_rsync_is_named(make_pi: MakePi, tmp_path: Path) -> None:  # case C03
    (tmp_path / "bin").mkdir()
    for name in ("sh", "id", "cat", "dd", "head", "sed", "setsid", "kill", "sleep", "printf", "mktemp", "rm", "env"):
        program = next((Path(place) / name for place in ("/bin", "/usr/bin") if (Path(place) / name).exists()), None)
        if program:
            (tmp_path / "bin" / name).symlink_to(program)
    job = make_pi(path=str(tmp_path / "bin")).run("backup")
    assert job.error == "rsync is missing on pi1; install the package rsync there."


def test_login_noise_is_shown_as_the_reason(make_pi: MakePi) -> None:  # case C04
    pi = make_pi(noise="Welcome to the machine")
    job = pi.run("backup")
    assert job.status == Status.FAILED
    assert "Welcome to the machine" in job.error


def test_a_folder_in_use_is_a_wait_and_never_a_failure(pi: Pi) -> None:
    with host_folder(Path(pi.root.path), pi.host.name):
        job = pi.run("backup")
    assert (job.status, job.waiting_on) == (Status.PENDING, WaitingOn.LOCK)
    assert "Another copy works" in job.waiting_why
    assert pi.request("backup").pk == job.pk


def test_what_a_killed_run_left_is_taken_over(pi: Pi) -> None:
    pi.run("backup")
    folder = pi.good()[0].path.parent
    left = folder / ".partial-killed" / TREE
    left.mkdir(parents=True)
    (left / "stray").write_text("left over")
    Generation.objects.create(source=pi.source, sequence=2, folder="000002-x", root=pi.root)
    assert pi.run("backup").status == Status.SUCCEEDED
    assert contents(tree(pi.good()[1])) == contents(pi.data)
    assert not pi.source.generations.filter(status=GenerationStatus.WRITING).exists()


def unknown(pi: Pi) -> set[bytes]:
    """The files of the newest generation that have no checksum."""
    entries = read_manifest(pi.good()[-1].path / "manifest.jsonl.gz")
    return {entry.name for entry in entries if entry.kind == "file" and not entry.checksum}


def test_missing_checksums_are_made_up_for_over_the_next_runs(pi: Pi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "HASH_HERE", 0)
    pi.run("backup")
    write_manifest(tree(pi.good()[0]), {}, None, tmp := pi.good()[0].path / "new")
    tmp.replace(pi.good()[0].path / "manifest.jsonl.gz")
    assert len(unknown(pi)) == 34
    monkeypatch.setattr(backup, "HASH_HERE", 1 << 17)
    left = []
    for _ in range(2):
        pi.run("backup")
        left.append(unknown(pi))
    assert left == [{b"sparse"}, set()]


def test_a_generation_renamed_but_not_marked_is_good_after_the_next_run(pi: Pi) -> None:
    pi.run("backup")
    Generation.objects.update(status=GenerationStatus.WRITING, finished_at=None)
    pi.run("backup")
    assert [row.sequence for row in pi.good()] == [1, 2]
    assert len(list_generations(pi.good()[0].path.parent)) == 2


def test_the_sequence_lies_above_disk_and_database(pi: Pi) -> None:
    pi.run("backup")
    pi.good()[0].path.rename(pi.good()[0].path.with_name("000009-20200101T000000Z"))
    pi.run("backup")
    assert pi.good()[-1].sequence == 10


def test_no_room_is_said_before_anything_is_copied(pi: Pi, full_disk: Path) -> None:  # case C09
    job = on_small_disk(pi, full_disk, 69 << 20)
    assert (job[0], job[1]) == (Failure.NO_SPACE, 0)


def test_a_disk_that_fills_in_mid_copy_keeps_the_last_good_one(pi: Pi, full_disk: Path) -> None:  # case C09
    (pi.data / "big").write_bytes(os.urandom(80 << 20))
    failure, generations = on_small_disk(pi, full_disk, 0)
    assert (failure, generations) == (Failure.NO_SPACE, 0)


def on_small_disk(pi: Pi, disk: Path, taken: int) -> tuple[str, int]:
    pi.root.path = str(disk)
    pi.root.save()
    create_marker(disk, settings.PIHERDER_INSTALL_ID, pi.root.marker.hex)
    (disk / "taken").write_bytes(b"x" * taken)
    return pi.run("backup").failure, len(pi.good())


def test_hooks_that_touch_containers_keep_compose_away(pi: Pi) -> None:
    pi.edit(hooks_touch_stacks=True)
    job = pi.request("backup")
    assert sorted(job.lanes.values_list("name", flat=True)) == ["backup", "stack"]


def test_the_limit_of_the_host_is_the_limit_of_the_job(pi: Pi) -> None:
    pi.edit(backup_limit=timedelta(minutes=7))
    assert pi.request("backup").time_limit == timedelta(minutes=7)
