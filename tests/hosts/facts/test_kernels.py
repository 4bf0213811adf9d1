"""Whether a reboot is required."""

import pytest

from hosts.facts import Reboot, parse
from hosts.facts.kernels import flavour, newest_of_flavour, reboot, version_key
from tests.hosts.facts.samples import PROXMOX, RASPBERRY, UBUNTU, printed

BOOTED = 1_740_000_000
BEFORE = BOOTED - 3600
AFTER = BOOTED + 3600


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("6.1.0-18-amd64", "amd64"),
        ("6.1.0-18-cloud-amd64", "cloud-amd64"),
        ("6.1.0-0.deb11.13-amd64", "amd64"),
        ("6.12.43+deb13-amd64", "amd64"),
        ("6.8.0-61-lowlatency", "lowlatency"),
        ("5.15.0-1034-raspi", "raspi"),
        ("6.6.20+rpt-rpi-v8", "rpi-v8"),
        ("6.1.21-v8+", "v8+"),
        ("6.1.21+", ""),
        ("6.8.12-4-pve", "pve"),
        ("", ""),
    ],
)
def test_flavour(release: str, name: str) -> None:
    assert flavour(release) == name


# case A14
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("5.15.0-97-generic", "5.15.0-100-generic"),
        ("6.9.1-amd64", "6.10.0-amd64"),
        ("6.1.0-0.deb11.13-amd64", "6.1.0-18-amd64"),
        ("6.12.43+deb12-amd64", "6.12.43+deb13-amd64"),
        ("6.8.8-2-pve", "6.8.12-1-pve"),
    ],
)
def test_versions_are_compared_as_numbers(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


# case A13
def test_a_newer_kernel_without_a_flag_file() -> None:
    installed = dict.fromkeys(["6.1.0-18-amd64", "6.1.0-22-amd64"])
    found = reboot("6.1.0-18-amd64", installed, None, (), BOOTED)
    assert found == Reboot(True, ("running 6.1.0-18-amd64, installed 6.1.0-22-amd64",))


# case A14
def test_another_flavour_is_no_newer_kernel() -> None:
    installed = dict.fromkeys(["6.8.0-60-generic", "6.8.0-61-lowlatency", "5.15.0-107-generic"])
    assert reboot("6.8.0-60-generic", installed, None, (), BOOTED) == Reboot(False)


# case A14
def test_a_flag_older_than_the_boot_is_stale() -> None:
    found = reboot("6.1.0-18-amd64", {"6.1.0-18-amd64": None}, BEFORE, ("libc6",), BOOTED)
    assert (found.required, found.packages) == (False, ())
    assert found.notes == ("flag file /run/reboot-required is older than the boot and ignored",)


def test_a_flag_of_this_boot_counts() -> None:
    found = reboot("6.1.0-18-amd64", {"6.1.0-18-amd64": None}, AFTER, ("libc6", "dbus"), BOOTED)
    assert found == Reboot(True, ("flag file /run/reboot-required",), ("libc6", "dbus"))


def test_a_flag_counts_while_the_time_of_the_boot_is_unknown() -> None:
    assert reboot(None, None, BEFORE, (), None).required is True


# case A13
def test_both_signs_are_named() -> None:
    found = reboot("6.1.0-18-amd64", {"6.1.0-22-amd64": AFTER}, AFTER, (), BOOTED)
    assert found.reasons == ("flag file /run/reboot-required", "running 6.1.0-18-amd64, installed 6.1.0-22-amd64")


# case A14
def test_a_kernel_that_the_last_boot_passed_over_asks_for_no_other_boot() -> None:
    found = reboot("6.8.8-2-pve", {"6.8.8-2-pve": BEFORE, "6.8.12-1-pve": BEFORE}, None, (), BOOTED)
    assert (found.required, found.reasons) == (False, ())
    assert found.notes == ("running 6.8.8-2-pve, installed 6.8.12-1-pve but the last boot did not start it",)


def test_a_container_without_kernels_is_unknown() -> None:
    assert reboot("6.8.12-1-pve", {}, None, (), BOOTED) == Reboot(None)


def test_a_kernel_of_ones_own_is_unknown() -> None:
    assert reboot("6.18.44-mine", {"6.1.0-22-amd64": AFTER}, None, (), BOOTED).required is None


def test_newest_of_flavour() -> None:
    assert newest_of_flavour("1-a", ["9-a", "10-a", "11-b"]) == "10-a"
    assert newest_of_flavour("1-c", ["9-a"]) is None


def test_raspberry_pi_os() -> None:
    found = parse(printed(RASPBERRY)).reboot
    assert found == Reboot(True, ("running 6.6.20+rpt-rpi-v8, installed 6.6.31+rpt-rpi-v8",))


def test_raspberry_pi_os_of_before_2023_has_only_modules() -> None:
    kernels = "modules 6.1.21+ 5\nmodules 6.1.21-v7l+ 5\nmodules 6.1.21-v8+ 5\nmodules 6.1.54-v8+ 1739999999"
    sample = RASPBERRY | {"kernel": "6.1.21-v8+\naarch64\nattic", "kernels": kernels}
    assert parse(printed(sample)).reboot.reasons == ("running 6.1.21-v8+, installed 6.1.54-v8+",)


def test_modules_that_a_removed_kernel_left_do_not_count() -> None:
    kernels = "image 6.8.0-60-generic\nmodules 6.8.0-60-generic 5\nmodules 6.8.0-99-generic 1739999999"
    assert parse(printed(UBUNTU | {"kernels": kernels, "reboot_flag": ""})).reboot == Reboot(False)


def test_ubuntu_flag_with_its_packages() -> None:
    found = parse(printed(UBUNTU)).reboot
    assert found.packages == ("linux-base", "linux-image-6.8.0-60-generic")


def test_ubuntu_flag_that_outlived_the_boot() -> None:
    assert parse(printed(UBUNTU | {"reboot_flag": "flag=1700000000\npackage=x"})).reboot.required is False


def test_a_flag_without_a_readable_time_counts() -> None:
    assert parse(printed(UBUNTU | {"reboot_flag": "flag="})).reboot.required is True


def test_proxmox() -> None:
    assert parse(printed(PROXMOX)).reboot.reasons == ("running 6.8.8-2-pve, installed 6.8.12-1-pve",)
