"""The marker of a backup root, and what a probe says of real filesystems."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hosts.store import root as roots
from hosts.store.root import Capabilities, RootUnusable, Space
from tests.hosts.store.build import INSTALL, fill_disk

COMPLETE = Capabilities(
    hard_links=True,
    symlinks=True,
    rename=True,
    user_xattrs=True,
    acls=True,
    sparse=True,
    case_sensitive=True,
    any_name=True,
    owners=True,
    filesystem="ext4",
    free_bytes=1 << 40,
    free_inodes=1 << 20,
    on_system_disk=False,
    removable_or_sd_card=False,
)


def without(feature: str) -> Capabilities:
    lacking: dict[str, Any] = {feature: False}
    return replace(COMPLETE, **lacking)


def test_a_marked_root_is_usable(root: Path) -> None:
    state = roots.check(root, INSTALL)
    assert state.usable
    assert len(state.root_id) == 16
    state.require()


def test_marking_again_keeps_the_root_id(root: Path) -> None:
    assert roots.create_marker(root, INSTALL) == roots.check(root, INSTALL).root_id


def test_an_unmounted_disk_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    state = roots.check(tmp_path, INSTALL)
    assert "backup disk is not mounted" in state.problem
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RootUnusable, match="not mounted"):
        state.require()


def test_a_missing_mount_point_is_an_unmounted_disk(tmp_path: Path) -> None:
    assert "not mounted" in roots.check(tmp_path / "gone", INSTALL).problem


def test_another_installations_root_is_left_alone(root: Path) -> None:
    before = (root / roots.MARKER).read_bytes()
    assert "belongs to another installation" in roots.check(root, "install-2").problem
    with pytest.raises(RootUnusable, match="another installation"):
        roots.create_marker(root, "install-2")
    assert (root / roots.MARKER).read_bytes() == before


def test_two_disks_of_one_installation_are_told_apart(root: Path) -> None:
    assert "Another backup disk" in roots.check(root, INSTALL, "0123456789abcdef").problem


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"install_id": "install-1"}', b"\xff"])
def test_a_damaged_marker_is_said_to_be_damaged(root: Path, content: bytes) -> None:
    (root / roots.MARKER).write_bytes(content)
    assert "damaged" in roots.check(root, INSTALL).problem


def test_a_root_that_is_no_folder_cannot_be_marked(tmp_path: Path) -> None:
    with pytest.raises(RootUnusable, match="not a folder"):
        roots.create_marker(tmp_path / "missing", INSTALL)


def test_a_durable_write_replaces_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    for data in (b"one", b"two"):
        roots.write_durably(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_probe_finds_what_linux_disks_can_and_leaves_nothing(root: Path) -> None:
    before = sorted(os.listdir(root))
    found = roots.probe(root)
    assert found.refusals() == ()
    assert (found.hard_links, found.symlinks, found.rename, found.sparse, found.case_sensitive, found.any_name) == (
        True,
    ) * 6
    assert found.filesystem
    assert sorted(os.listdir(root)) == before


def test_a_probe_names_missing_attributes_and_unknown_numbers(plain_memory: Path) -> None:
    found = roots.probe(plain_memory)
    assert (found.filesystem, found.user_xattrs, found.free_bytes, found.free_inodes) == ("ramfs", False, None, None)
    assert found.refusals() == ()
    assert any("Extended attributes are lost" in sentence for sentence in found.lost_features())
    assert found.on_system_disk is None


def test_a_full_disk_is_no_missing_feature(small_disk: Path) -> None:  # case C09
    fill_disk(small_disk)
    with pytest.raises(RootUnusable, match="No space left"):
        roots.probe(small_disk)


def test_a_disk_that_fills_in_the_middle_of_a_trial_is_no_missing_feature(small_disk: Path) -> None:  # case C09
    fill_disk(small_disk)
    with pytest.raises(OSError, match="No space"):
        roots._can(lambda: (small_disk / "more").write_bytes(b"x"))


def test_a_root_that_cannot_be_written_is_unusable(tmp_path: Path) -> None:
    with pytest.raises(RootUnusable, match="cannot be written"):
        roots.probe(tmp_path / "missing")


def vfat_reason() -> str:
    """Why a FAT disk cannot be tried here, or nothing."""
    if os.geteuid() != 0:
        return "only root can mount a vfat"
    if shutil.which("mkfs.vfat") is None:
        return "mkfs.vfat (dosfstools) is not installed"
    return "" if "vfat" in Path("/proc/filesystems").read_text() else "this kernel has no vfat"


@pytest.mark.skipif(bool(vfat_reason()), reason=vfat_reason())
def test_a_fat_disk_is_refused(tmp_path: Path) -> None:
    image, folder = tmp_path / "image", tmp_path / "fat"
    image.write_bytes(bytes(8 << 20))
    folder.mkdir()
    subprocess.run(["mkfs.vfat", str(image)], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    try:
        found = roots.probe(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    assert any("hard links" in sentence for sentence in found.refusals())


def test_a_complete_disk_loses_nothing() -> None:
    assert COMPLETE.refusals() == COMPLETE.lost_features() == COMPLETE.warnings() == ()


@pytest.mark.parametrize(("missing", "says"), [("hard_links", "hard links"), ("rename", "renaming")])
def test_what_generations_need_is_refused_when_missing(missing: str, says: str) -> None:
    (sentence,) = replace(without(missing), filesystem="exfat").refusals()
    assert says in sentence
    assert "exfat" in sentence


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("symlinks", "Symbolic"),
        ("user_xattrs", "Extended"),
        ("acls", "ACL"),
        ("owners", "Owners"),
        ("sparse", "Sparse"),
        ("case_sensitive", "upper and lower"),
        ("any_name", "UTF-8"),
    ],
)
def test_what_is_lost_is_named(missing: str, says: str) -> None:
    found = without(missing)
    assert found.refusals() == ()
    (sentence,) = found.lost_features()
    assert says in sentence


def test_without_root_the_xattrs_carry_the_owners() -> None:
    found = replace(COMPLETE, user_xattrs=False, owners=False, acls=False)
    (sentence,) = found.lost_features(fake_super=True)
    assert "owners, modes" in sentence


def test_the_system_disk_and_sd_cards_are_warned_of() -> None:
    first, second = replace(COMPLETE, on_system_disk=True, removable_or_sd_card=True).warnings()
    assert "system disk" in first
    assert "SD card" in second


def test_too_little_space_says_how_much() -> None:
    assert roots.too_little_space(Space(5 << 20, 100), 10 << 20, 50) == (
        "The backup disk has 5 MiB free, less than 10; free some space."
    )
    assert "room for 100 more files" in roots.too_little_space(Space(50 << 20, 100), 10 << 20, 500)


def test_unknown_space_stops_nothing() -> None:
    assert roots.too_little_space(Space(None, None), 1 << 40, 1 << 40) == ""
    assert roots.too_little_space(Space(1 << 41, 1 << 41), 1 << 40, 1 << 40) == ""


def test_space_is_that_of_the_roots_disk(small_disk: Path) -> None:
    left = roots.space_left(small_disk)
    assert left.free_bytes is not None
    assert left.free_bytes <= 1 << 20


MOUNTS = rb"""/dev/vda / ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
/dev/sdb1 /mnt/back\040up btrfs rw 0 0
/dev/sdc1 /mnt/back\040up ext4 rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "source"),
    [("/srv", "/dev/vda"), ("/mnt/back up/x", "/dev/sdc1"), ("/mnt/back upper", "/dev/vda"), ("/run", "tmpfs")],
)
def test_the_mount_of_a_path_is_the_longest_and_latest(path: str, source: str) -> None:
    assert roots.mount_of(path, roots.parse_mounts(MOUNTS)).source == source


def fake_disks(sys_block: Path) -> None:
    """sda with a partition, an LVM volume over sdb and sdc, an SD card."""
    for entry in (
        "disk/sda/sda1",
        "disk/sdb",
        "disk/sdc",
        "dm-0/slaves/sdb",
        "dm-0/slaves/sdc",
        "mmcblk0/device",
        "mmcblk1/device",
    ):
        (sys_block / entry).mkdir(parents=True)
    (sys_block / "disk/sda/sda1/partition").write_text("1")
    (sys_block / "disk/sda/removable").write_text("1\n")
    (sys_block / "disk/sdb/removable").write_text("0\n")
    (sys_block / "mmcblk0/device/type").write_text("SD\n")
    (sys_block / "mmcblk1/device/type").write_text("MMC\n")
    for name in ("sda", "sda/sda1", "sdb", "sdc"):
        (sys_block / Path(name).name).symlink_to(sys_block / "disk" / name)


def test_partitions_and_volumes_lead_to_their_disks(tmp_path: Path) -> None:
    fake_disks(tmp_path)
    assert roots.disks_of("/dev/sda1", tmp_path) == {"sda"}
    assert roots.disks_of("/dev/dm-0", tmp_path) == {"sdb", "sdc"}
    assert roots.disks_of("tmpfs", tmp_path) == roots.disks_of("/dev/none", tmp_path) == frozenset()


def test_cards_and_sticks_are_removable_and_soldered_memory_is_not(tmp_path: Path) -> None:
    fake_disks(tmp_path)
    found = {
        disk: roots.is_removable(disk, tmp_path) for disk in ("sda", "sdb", "mmcblk0", "mmcblk1", "mmcblk9", "gone")
    }
    assert found == {"sda": True, "sdb": False, "mmcblk0": True, "mmcblk1": False, "mmcblk9": True, "gone": False}


def test_the_marker_is_plain_json(root: Path) -> None:
    assert json.loads((root / roots.MARKER).read_text())["install_id"] == INSTALL
