"""The one line, the warnings and the numbers of the history, and the table of ends of life."""

import datetime
from dataclasses import replace

import pytest

from hosts.facts import Disk, Facts, OperatingSystem, Throttling, one_line, parse, thin, warnings
from hosts.facts.end_of_life import end_of_life
from tests.hosts.facts.samples import PROXMOX, RASPBERRY, UBUNTU, printed

DAY = datetime.date(2025, 2, 19)


def test_one_line() -> None:
    assert one_line(parse(printed(RASPBERRY))) == ("Raspberry Pi OS 12, 4 CPUs, 3.7 GiB memory, / 39 % full, up 12 d")
    assert one_line(parse(printed(PROXMOX))).startswith("Proxmox VE 8.2.4, 4 CPUs")


def test_one_line_leaves_out_what_is_unknown() -> None:
    assert one_line(Facts(os=OperatingSystem(id="debian", version="12"), cpus=1)) == "Debian 12, 1 CPU"
    assert one_line(Facts()) == "nothing is known yet"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "up 0 min"), (3599, "up 59 min"), (7200, "up 2 h"), (86400, "up 1 d"), (10**7, "up 115 d")],
)
def test_uptime(seconds: int, words: str) -> None:
    assert one_line(Facts(uptime=seconds)) == words


def test_small_memory() -> None:
    assert one_line(Facts(memory_total=434 * 2**20)) == "434 MiB memory"


@pytest.mark.parametrize(
    ("system", "name"),
    [
        (OperatingSystem(id="ubuntu", version="24.04"), "Ubuntu 24.04"),
        (OperatingSystem(id="raspbian", version="11"), "Raspberry Pi OS 11"),
        (OperatingSystem(id="alpine", version="3.20.1", pretty_name="Alpine Linux v3.20"), "Alpine Linux v3.20"),
        (OperatingSystem(id="debian", pretty_name="Debian GNU/Linux trixie/sid"), "Debian GNU/Linux trixie/sid"),
        (OperatingSystem(id="plan9"), "plan9"),
    ],
)
def test_name_of_the_system(system: OperatingSystem, name: str) -> None:
    assert one_line(Facts(os=system)) == name


def test_thin() -> None:
    assert thin(parse(printed(RASPBERRY))) == {
        "load": 0.52,
        "memory_percent": 25,
        "disk_percent": 95,
        "temperature": 48.3,
        "uptime": 1041234,
    }


def test_thin_of_nothing_has_no_zeros() -> None:
    assert set(thin(Facts()).values()) == {None}


def test_warnings_of_a_weak_raspberry_pi() -> None:
    assert warnings(parse(printed(RASPBERRY)), DAY) == [
        "Disk /srv/my data is 95 % full.",
        "Disk /srv/my data is mounted read-only: look for disk errors in the kernel log.",
        "The power supply is too weak: under-voltage now.",
        "The processor is slowed down: throttled.",
        "Failed units: zigbee2mqtt.service.",
        "A reboot is required: running 6.6.20+rpt-rpi-v8, installed 6.6.31+rpt-rpi-v8.",
    ]


def test_warnings_of_an_old_ubuntu() -> None:
    assert warnings(parse(printed(UBUNTU)), datetime.date(2025, 5, 30)) == [
        "Disk / is 98 % full.",
        "Disk / has used 95 % of its inodes.",
        "The clock is not synchronised.",
        "A reboot is required: flag file /run/reboot-required (packages linux-base, linux-image-6.8.0-60-generic).",
        "Ubuntu 20.04 has had no security updates since 2025-05-29: upgrade the system.",
    ]


def test_nothing_known_warns_of_nothing() -> None:
    assert warnings(Facts()) == []


def test_the_last_day_of_support_is_still_supported() -> None:
    facts = Facts(os=OperatingSystem(id="debian", version="11", end_of_life=datetime.date(2026, 8, 31)))
    assert warnings(facts, datetime.date(2026, 8, 31)) == []
    assert len(warnings(facts, datetime.date(2026, 9, 1))) == 1


def test_today_is_asked_of_the_clock() -> None:
    facts = Facts(os=OperatingSystem(id="debian", version="9", end_of_life=datetime.date(2022, 6, 30)))
    assert len(warnings(facts)) == 1


@pytest.mark.parametrize(("free", "count"), [(10, 0), (9, 1), (0, 1)])
def test_a_disk_is_full_over_ninety_percent(free: int, count: int) -> None:
    disk = Disk("/", "/dev/sda", "ext4", bytes_total=100, bytes_used=100 - free, bytes_free=free)
    assert len(warnings(Facts(disks=(disk,)))) == count


def test_read_only_that_is_meant_is_no_warning() -> None:
    disk = Disk("/boot", "/dev/sda", "ext4", read_only=True, meant_read_only=True)
    assert warnings(Facts(disks=(disk,))) == []
    assert len(warnings(Facts(disks=(replace(disk, meant_read_only=False),)))) == 1


def test_under_voltage_of_the_past() -> None:
    facts = Facts(throttling=Throttling(since_boot=("under-voltage",)))
    assert warnings(facts) == ["The power supply is too weak: there was under-voltage since the boot."]


def test_many_failed_units_are_counted() -> None:
    facts = Facts(failed_units=tuple(f"{n}.service" for n in range(9)))
    assert warnings(facts)[0].endswith("4.service and 4 more.")


@pytest.mark.parametrize(
    ("os_id", "version", "day"),
    [
        ("debian", "12", "2028-06-30"),
        ("raspbian", "11", "2026-08-31"),
        ("ubuntu", "22.04", "2027-06-01"),
        ("debian", "99", None),
        ("alpine", "3.20", None),
        (None, None, None),
    ],
)
def test_end_of_life(os_id: str | None, version: str | None, day: str | None) -> None:
    assert end_of_life(os_id, version) == (datetime.date.fromisoformat(day) if day else None)
