"""Verification finds every fault that was put in, and the cursor comes round."""

from __future__ import annotations

import itertools
import os
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from hosts.store.layout import MANIFEST
from hosts.store.manifest import ManifestDamaged, read_manifest, write_manifest
from hosts.store.trash import discard
from hosts.store.verify import NAMED, Finding, VerifyReport, _reservoir, restore_sample, verify
from tests.hosts.store.build import fill, finish, publish, sums, write_partial

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [f"d{n % 3}/f{n}" for n in range(10)]


@pytest.fixture
def good(root: Path) -> Path:
    """A generation of ten small files."""
    return publish(root, 1, {name: name.encode() * 10 for name in NAMES})


def rewrite_manifest(generation: Path, checksums: dict[bytes, str]) -> None:
    (generation / MANIFEST).unlink()
    write_manifest(generation / "tree", checksums, None, generation / MANIFEST)


def flip(path: Path) -> None:
    """Rot one bit and keep size and time."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_good_generation_is_as_written(good: Path) -> None:
    report = verify(good, 1)
    assert (report.ok, report.complete, report.checked, report.without_checksum) == (True, True, 10, 0)
    assert report.sentence() == "10 files, 0 MiB re-read: all as written."


def test_odd_generations_are_as_written(root: Path) -> None:  # case C13
    partial = write_partial(root, "a", {})
    fill(partial.tree)
    report = verify(finish(partial, 1), 1)
    assert report.ok, report.sentence()
    assert report.bytes > 8 << 20


def test_one_flipped_bit_is_found(good: Path) -> None:
    flip(good / "tree" / NAMES[4])
    report = verify(good, 1)
    assert report.changed == Finding(1, [NAMES[4]])
    assert "1 changed (first: d1/f4)" in report.sentence()
    assert not report.ok


def test_a_missing_file_is_found(good: Path) -> None:
    (good / "tree" / NAMES[2]).unlink()
    assert verify(good, 1).missing.names == [NAMES[2]]


def test_a_missing_folder_misses_all_it_held(good: Path) -> None:
    discard(good / "tree/d1", good.parents[2])
    assert verify(good, 1).missing.count == 1 + 3


def test_a_file_cut_short_is_changed(good: Path) -> None:
    os.truncate(good / "tree" / NAMES[0], 3)
    assert verify(good, 1).changed.names == [NAMES[0]]


def test_a_link_with_another_target_and_a_file_that_became_a_folder_are_changed(root: Path) -> None:
    partial = write_partial(root, "a", {"f": b"1"})
    (partial.tree / "link").symlink_to("one")
    good = finish(partial, 1)
    (good / "tree/link").unlink()
    (good / "tree/link").symlink_to("two")
    (good / "tree/f").unlink()
    (good / "tree/f").mkdir()
    assert verify(good, 1).changed.names == ["f", "link"]


def test_a_file_replaced_by_a_link_is_not_followed(good: Path) -> None:
    path = good / "tree" / NAMES[0]
    path.rename(good / "elsewhere")
    path.symlink_to(good / "elsewhere")
    assert verify(good, 1).changed.names == [NAMES[0]]


def test_a_file_without_a_checksum_is_read_and_counted(good: Path) -> None:
    rewrite_manifest(good, {})
    report = verify(good, 1)
    assert (report.ok, report.without_checksum) == (True, 10)
    assert report.bytes > 0
    assert "10 of them without a checksum" in report.sentence()


def test_an_algorithm_that_cannot_be_computed_counts_as_none(good: Path) -> None:
    rewrite_manifest(good, dict.fromkeys(sums(good / "tree"), "xxh128:00"))
    assert verify(good, 1).without_checksum == 10


def test_a_share_is_rounded_up(good: Path) -> None:
    assert verify(good, 0.25).checked == 3
    assert verify(good, 0.001).checked == 1


@pytest.mark.parametrize("share", [0, -0.5, 1.01])
def test_a_senseless_share_is_refused(good: Path, share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        verify(good, share)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7])
def test_the_cursor_reaches_every_file(good: Path, share: float) -> None:
    found, cursor = set[str](), ""
    for name in NAMES:
        flip(good / "tree" / name)
    for _ in range(-(-10 // round(10 * share))):
        report = verify(good, share, cursor=cursor)
        found, cursor = found | set(report.changed.names), report.cursor
    assert found == set(NAMES)


def test_the_cursor_comes_round_the_end(good: Path) -> None:
    last = sorted(NAMES)[-1]
    assert verify(good, 0.1, cursor=last).cursor == sorted(NAMES)[0]


def test_a_whole_round_from_anywhere_reads_every_file(good: Path) -> None:
    report = verify(good, 1, cursor=NAMES[5])
    assert (report.checked, report.complete, report.cursor) == (10, True, NAMES[5])


def test_a_cursor_from_a_name_that_is_gone_goes_on_after_it(good: Path) -> None:
    assert verify(good, 0.1, cursor="d0/f35").cursor == "d0/f6"


def test_an_odd_name_can_be_the_cursor(root: Path) -> None:  # case C13
    partial = write_partial(root, "a", {})
    fill(partial.tree)
    good, cursor, seen = finish(partial, 1), "", 0
    for _ in range(12):
        report = verify(good, 0.01, cursor=cursor)
        cursor, seen = report.cursor, seen + report.checked
    assert (seen, report.ok) == (12, True)


def test_bytes_are_bounded_but_one_file_is_always_read(good: Path) -> None:
    assert verify(good, 1, max_bytes=100).checked == 2
    report = verify(good, 1, max_bytes=1)
    assert (report.checked, report.complete) == (1, False)


def test_a_check_can_stop_it(good: Path) -> None:
    def stop() -> None:
        raise InterruptedError("cancelled")

    with pytest.raises(InterruptedError):
        verify(good, 1, check=stop)


class Stop(Exception):
    """What a cancel raises."""


def test_a_check_can_stop_it_in_the_middle_of_a_file(root: Path) -> None:
    good, calls, report = publish(root, 1, {"a": b"1", "image": bytes(5 << 20)}), itertools.count(), VerifyReport()

    def stop() -> None:
        if next(calls) == 5:  # two files, and the MiB of both
            raise Stop

    with pytest.raises(Stop):
        verify(good, 1, check=stop, report=report)
    assert (report.checked, report.cursor, report.ok) == (1, "a", True)


def test_a_sample_can_be_stopped_in_the_middle_of_a_file(root: Path, tmp_path: Path) -> None:
    good, calls = publish(root, 1, {"image": bytes(5 << 20)}), itertools.count()

    def stop() -> None:
        if next(calls) == 3:
            raise Stop

    with pytest.raises(Stop):
        restore_sample(good, tmp_path, 1, check=stop)


def test_to_the_end_and_not_round_it(good: Path) -> None:
    first = verify(good, 1, max_bytes=100, wrap=False)
    assert (first.checked, first.complete) == (2, False)
    rest = verify(good, 1, cursor=first.cursor, wrap=False)
    assert (rest.checked, rest.complete, rest.cursor) == (8, True, sorted(NAMES)[-1])


def test_progress_rises_to_the_end(good: Path) -> None:
    seen: list[int] = []
    verify(good, 1, on_progress=lambda files, _size: seen.append(files))
    assert seen == sorted(seen)
    assert seen[-1] == 10


def test_a_damaged_manifest_is_reported_and_not_half_verified(good: Path) -> None:
    path = good / MANIFEST
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ManifestDamaged, match="damaged"):
        verify(good, 1)


def test_a_tree_without_files_is_complete(root: Path) -> None:
    report = verify(publish(root, 1, {}), 0.1)
    assert (report.checked, report.complete, report.ok) == (0, True, True)


def test_findings_name_only_the_first() -> None:
    finding = Finding()
    for n in range(NAMED + 5):
        finding.add(b"caf\xe9%d" % n)
    assert (finding.count, len(finding.names), finding.names[0]) == (NAMED + 5, NAMED, "caf%E90")


def test_a_sample_is_proven_and_leaves_nothing(good: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    report = restore_sample(good, scratch, 4, rng=random.Random(1))
    assert (report.proven, report.files, report.bytes) == (True, 4, 4 * 50)
    assert report.when <= datetime.now(UTC)
    assert list(scratch.iterdir()) == []


def test_a_sample_of_odd_files_comes_back(root: Path, tmp_path: Path) -> None:  # case C13
    partial = write_partial(root, "a", {})
    fill(partial.tree)
    report = restore_sample(finish(partial, 1), tmp_path, 100)
    assert (report.files, report.problems) == (12, ())


def test_a_rotten_file_is_not_proven(good: Path, tmp_path: Path) -> None:
    flip(good / "tree" / NAMES[3])
    report = restore_sample(good, tmp_path, 10)
    assert not report.proven
    assert report.problems == ("d0/f3 came back with other content.",)


def test_a_missing_file_is_not_proven(good: Path, tmp_path: Path) -> None:
    (good / "tree" / NAMES[3]).unlink()
    assert restore_sample(good, tmp_path, 10).problems == ("d0/f3 could not be read: No such file or directory.",)


def test_another_mode_is_not_proven(good: Path, tmp_path: Path) -> None:
    (good / "tree" / NAMES[3]).chmod(0o604)
    assert restore_sample(good, tmp_path, 10).problems == ("d0/f3 came back with another time or mode.",)


def test_nothing_restored_is_nothing_proven(root: Path, tmp_path: Path) -> None:
    assert not restore_sample(publish(root, 1, {}), tmp_path, 5).proven


def test_files_without_a_checksum_prove_nothing(good: Path, tmp_path: Path) -> None:
    rewrite_manifest(good, {})
    assert restore_sample(good, tmp_path, 5).files == 0


def test_a_sample_is_bounded_in_bytes(good: Path, tmp_path: Path) -> None:
    assert restore_sample(good, tmp_path, 10, max_bytes=120).files == 2


def test_samples_differ_and_reach_every_file(good: Path) -> None:

    chosen = [{e.name for e in _reservoir(read_manifest(good / MANIFEST), 3, random.Random(s))} for s in range(40)]
    assert len({frozenset(names) for names in chosen}) > 10
    assert set().union(*chosen) == {name.encode() for name in NAMES}


def test_a_full_scratch_is_an_error_and_no_finding(good: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        restore_sample(good, tmp_path / "missing", 1)
