"""Disks, temperature and throttling."""

import pytest

from hosts.facts import Disk, Throttling, parse
from hosts.facts.framing import Section
from hosts.facts.hardware import temperature, throttling, unescape
from tests.hosts.facts.samples import PROXMOX, RASPBERRY, UBUNTU, printed


def disks(text: str, meant: str = "") -> dict[str, Disk]:
    facts = parse(printed(RASPBERRY | {"disks": text, "meant_read_only": meant}))
    return {disk.mount: disk for disk in facts.disks or ()}


def test_sizes_are_bytes_and_inodes() -> None:
    assert disks(RASPBERRY["disks"])["/"] == Disk(
        mount="/",
        device="/dev/mmcblk0p2",
        fstype="ext4",
        bytes_total=7500000 * 4096,
        bytes_used=2800000 * 4096,
        bytes_free=4387500 * 4096,
        inodes_total=1900000,
        inodes_free=1710000,
        read_only=False,
        meant_read_only=False,
    )


def test_a_device_that_is_mounted_twice_is_one_disk() -> None:
    assert list(disks(RASPBERRY["disks"])) == ["/", "/boot/firmware", "/srv/my data"]


def test_a_file_system_without_inodes() -> None:
    boot = disks(RASPBERRY["disks"])["/boot/firmware"]
    assert (boot.inodes_total, boot.inodes_free, boot.inodes_used_percent, boot.used_percent) == (None, None, None, 14)


def test_percent_is_that_of_df() -> None:
    disk = disks("/dev/sda1 / ext4 rw 4096 66053021 60307598 20852305 16777216 16353061")["/"]
    assert (disk.used_percent, disk.inodes_used_percent) == (22, 3)


def test_read_only() -> None:
    found = disks(RASPBERRY["disks"])
    assert [disk.read_only for disk in found.values()] == [False, False, True]


def test_read_only_that_is_meant() -> None:
    disk = disks(RASPBERRY["disks"], meant="/srv/my\\040data")["/srv/my data"]
    assert (disk.read_only, disk.meant_read_only) == (True, True)


def test_read_only_after_an_error_by_a_new_kernel() -> None:
    assert disks("/dev/sda1 / ext4 rw,emergency_ro 4096 100 50 40 10 5")["/"].read_only is True


def test_a_disk_that_did_not_answer_has_no_numbers() -> None:
    disk = disks("/dev/sda1 / ext4 rw,relatime unknown")["/"]
    assert (disk.bytes_total, disk.bytes_free, disk.used_percent, disk.read_only) == (None, None, None, False)


@pytest.mark.parametrize("numbers", ["4096 0 0 0 0 0", "4096 x 0 0 0 0", "4096 100", "-"])
def test_broken_numbers(numbers: str) -> None:
    assert disks(f"/dev/sda1 / ext4 rw {numbers}")["/"].used_percent is None


def test_zfs_datasets_are_disks_of_their_own() -> None:
    found = disks(PROXMOX["disks"])
    assert {mount: disk.device for mount, disk in found.items()} == {
        "/": "rpool/ROOT/pve-1",
        "/rpool/data": "rpool/data",
    }


def test_no_disk_is_unknown() -> None:
    assert parse(printed(UBUNTU | {"disks": ""})).disks is None


@pytest.mark.parametrize(
    ("written", "name"),
    [("/a\\040b", "/a b"), ("/a\\134b", "/a\\b"), ("/a\\012b", "/a?b"), ("/plain", "/plain"), ("/a\\9", "/a\\9")],
)
def test_unescape(written: str, name: str) -> None:
    assert unescape(written) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("throttled=0x0", Throttling()),
        ("throttled=0x1", Throttling(now=("under-voltage",))),
        ("throttled=0x50000", Throttling(since_boot=("under-voltage", "throttled"))),
        ("throttled=0x50005", Throttling(("under-voltage", "throttled"), ("under-voltage", "throttled"))),
        ("throttled=0x8000a", Throttling(("frequency capped", "soft temperature limit"), ("soft temperature limit",))),
        ("50000", Throttling(since_boot=("under-voltage", "throttled"))),
        ("VCHI initialization failed", None),
        ('error=1 error_msg="Command not registered"', None),
        ("", None),
    ],
)
def test_throttling(text: str, expected: Throttling | None) -> None:
    assert throttling(Section(tuple(text.split("\n")))) == expected


def zone(number: int, kind: str, value: str) -> list[str]:
    folder = f"/sys/class/thermal/thermal_zone{number}"
    return [f"{folder}/type:{kind}", f"{folder}/temp:{value}"]


@pytest.mark.parametrize(
    ("lines", "degrees"),
    [
        (zone(0, "acpitz", "27800") + zone(1, "x86_pkg_temp", "43000"), 43.0),
        (zone(0, "acpitz", "27800") + zone(1, "iwlwifi_1", "39000"), 39.0),
        (zone(0, "cpu-thermal", "48312"), 48.3),
        (zone(0, "cpu-thermal", "45"), 45.0),
        (zone(0, "cpu-thermal", "-5000"), -5.0),
        (zone(0, "cpu-thermal", "0"), None),
        (zone(0, "cpu-thermal", "-274000"), None),
        ([*zone(0, "acpitz", "99000"), "temp=48.7'C"], 48.7),
        (["temp=hot"], None),
        ([], None),
    ],
)
def test_temperature(lines: list[str], degrees: float | None) -> None:
    assert temperature(Section(tuple(lines))) == degrees


def test_temperature_of_a_processor_without_thermal_zone() -> None:
    assert parse(printed(UBUNTU)).temperature == 55.5
