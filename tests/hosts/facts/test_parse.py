"""Reading the output of the facts script, from recorded texts."""

import datetime
import json

import pytest

from hosts.facts import Address, Facts, OperatingSystem, parse
from hosts.facts.framing import SECTIONS
from tests.hosts.facts.samples import PROXMOX, RASPBERRY, UBUNTU, printed


def changed(**sections: str) -> Facts:
    return parse(printed(RASPBERRY | sections))


def coded(name: str, text: str, code: int) -> Facts:
    return parse(printed(RASPBERRY | {name: text}, {name: code}))


def test_the_samples_have_every_section_of_the_script() -> None:
    assert [set(sample) for sample in (RASPBERRY, UBUNTU, PROXMOX)] == [set(SECTIONS)] * 3


def test_raspberry_pi_os_is_told_from_debian() -> None:
    system = parse(printed(RASPBERRY)).os
    assert system == OperatingSystem(
        id="debian",
        version="12",
        codename="bookworm",
        pretty_name="Debian GNU/Linux 12 (bookworm)",
        raspberry_pi_os=True,
        end_of_life=datetime.date(2028, 6, 30),
    )


def test_raspbian_on_32_bits_is_raspberry_pi_os() -> None:
    system = changed(os='ID=raspbian\nVERSION_ID="11"').os
    assert (system.raspberry_pi_os, system.end_of_life) == (True, datetime.date(2026, 8, 31))


def test_proxmox_is_told_from_debian() -> None:
    assert parse(printed(PROXMOX)).os.proxmox_version == "8.2.4"


def test_machine() -> None:
    facts = parse(printed(RASPBERRY))
    assert (facts.kernel, facts.arch, facts.hostname) == ("6.6.20+rpt-rpi-v8", "aarch64", "attic")
    assert (facts.userland_arch, facts.model, facts.cpus) == ("arm64", "Raspberry Pi 4 Model B Rev 1.4", 4)
    assert facts.machine_id_hash == "a" * 64


def test_a_whole_output_has_no_problems() -> None:
    assert [parse(printed(sample)).problems for sample in (RASPBERRY, UBUNTU, PROXMOX)] == [()] * 3


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("sys_vendor=LENOVO\nproduct_name=10MQS0UN00", "LENOVO 10MQS0UN00"),
        ("sys_vendor=QEMU\nproduct_name=QEMU Standard PC", "QEMU Standard PC"),
        ("sys_vendor=To Be Filled By O.E.M.\nproduct_name=N100DC", "N100DC"),
        ("sys_vendor=System manufacturer\nproduct_name=System Product Name", None),
        ("", None),
    ],
)
def test_model(text: str, model: str | None) -> None:
    assert changed(model=text).model == model


def test_memory_is_bytes() -> None:
    facts = parse(printed(RASPBERRY))
    assert (facts.memory_total, facts.memory_available) == (3884356 * 1024, 2913267 * 1024)
    assert (facts.swap_total, facts.swap_free) == (102396 * 1024, 102396 * 1024)


def test_a_host_without_swap_is_known_to_have_none() -> None:
    facts = changed(memory="MemTotal: 100 kB\nMemAvailable: 50 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB")
    assert (facts.swap_total, facts.swap_free) == (0, 0)


def test_available_memory_of_an_old_kernel_is_added_up() -> None:
    facts = changed(memory="MemTotal: 100 kB\nMemFree: 10 kB\nBuffers: 5 kB\nCached: 20 kB")
    assert (facts.memory_available, facts.swap_total) == (35 * 1024, None)


def test_load_uptime_and_boot() -> None:
    facts = parse(printed(RASPBERRY))
    assert (facts.load, facts.uptime, facts.time) == ((0.52, 0.58, 0.59), 1041234, 1740000000)
    assert facts.boot_id == "0f3c1a52-7a0e-4a63-9d5e-0d6a7c3f9b11"


@pytest.mark.parametrize(
    ("text", "synchronised"),
    [
        ("NTPSynchronized=yes", True),
        ("NTPSynchronized=no", False),
        ("System clock synchronized: yes\n   NTP service: active", True),
        ("     NTP synchronized: no", False),
        ("NTPSynchronized=no\nLeap status     : Normal", True),
        ("Leap status     : Not synchronised", False),
        ("506 Cannot talk to daemon", None),
        ("", None),
    ],
)
def test_clock(text: str, synchronised: bool | None) -> None:
    assert changed(clock=text).clock_synchronised is synchronised


def test_failed_units() -> None:
    text = (
        "a.service loaded failed failed A\n● dev-disk-by\\x2dlabel.mount loaded failed failed B\nrun@1.service loaded"
    )
    assert changed(failed_units=text).failed_units == ("a.service", "dev-disk-by\\x2dlabel.mount", "run@1.service")


def test_no_failed_units_is_not_the_same_as_no_systemd() -> None:
    assert coded("failed_units", "", 0).failed_units == ()
    assert coded("failed_units", "", 1).failed_units is None


def test_addresses_leave_out_what_cannot_be_reached_from_outside() -> None:
    assert parse(printed(RASPBERRY)).addresses == (
        Address("192.0.2.10", "eth0", 24),
        Address("2001:db8::10", "eth0", 64),
    )


def test_addresses_from_hostname() -> None:
    facts = changed(addresses="list 192.0.2.1 2001:db8::1")
    assert facts.addresses == (Address("192.0.2.1"), Address("2001:db8::1"))


def test_no_address_is_unknown() -> None:
    assert (changed(addresses="list ").addresses, changed(addresses="").addresses) == (None, None)


@pytest.mark.parametrize(
    ("text", "interface"),
    [
        ("4 wlan0 600\n4 eth0 100", "eth0"),
        ("6 eth1 00000400\n4 ppp0 0", "ppp0"),
        ("6 wlan0 00000258\n6 eth1 00000064", "eth1"),
        ("eth0", None),
        ("", None),
    ],
)
def test_default_interface(text: str, interface: str | None) -> None:
    assert changed(route=text).default_interface == interface


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("docker=Docker version 20.10.24+dfsg1, build 297e128", ("20.10.24+dfsg1", None, None)),
        ("docker=Docker version 27.1.1, build 6312585\ncompose-plugin=v2.3.3", ("27.1.1", "2.3.3", None)),
        ("docker-compose=docker-compose version 1.29.2, build unknown", (None, None, "1.29.2")),
        ("docker-compose=Docker Compose version v2.24.5", (None, "2.24.5", None)),
        ("docker=podman version 4.3.1\ncompose-plugin=", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_docker_and_compose(text: str, versions: tuple[str | None, ...]) -> None:
    tools = changed(docker=text).tools
    assert (tools.docker, tools.compose, tools.compose_v1) == versions


def test_tools() -> None:
    tools = parse(printed(RASPBERRY)).tools
    assert (tools.package_manager, tools.rsync, tools.rsync_version) == ("apt-get", True, "3.2.7")
    assert (tools.flock, tools.systemd, tools.python3, tools.sudo) == (True, True, True, True)


def test_a_missing_tool_is_missing_and_not_unknown() -> None:
    tools = changed(tools="apk\nsystemctl", rsync="").tools
    assert (tools.package_manager, tools.rsync, tools.rsync_version) == ("apk", False, None)
    assert (tools.flock, tools.systemd, tools.python3) == (False, False, False)


def test_the_version_of_rsync_that_was_built_from_git() -> None:
    assert changed(rsync="rsync  version v3.4.1  protocol version 32").tools.rsync_version == "3.4.1"


def test_facts_survive_storage() -> None:
    for sample in (RASPBERRY, UBUNTU, PROXMOX):
        facts = parse(printed(sample))
        assert Facts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


def test_unknown_facts_survive_storage() -> None:
    assert Facts.from_json(json.loads(json.dumps(Facts().to_json()))) == Facts()


def test_facts_of_another_release_can_be_read() -> None:
    stored = parse(printed(RASPBERRY)).to_json()
    del stored["temperature"]
    stored["colour"] = "green"
    facts = Facts.from_json(stored)
    assert (facts.temperature, facts.cpus) == (None, 4)
