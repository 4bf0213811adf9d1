"""From the printed sections of the facts script to `Facts`. Pure, and total: garbage gives unknowns, never an error."""

import re
from collections.abc import Mapping
from dataclasses import replace

from hosts.facts import hardware, kernels
from hosts.facts.end_of_life import end_of_life
from hosts.facts.framing import Framed, Section, first, integer, number, unframe
from hosts.facts.model import Address, Facts, OperatingSystem, Reboot, Tools

_MANAGERS = ("apt-get", "dnf", "yum", "zypper", "pacman", "apk", "opkg")
_INNER_INTERFACE = re.compile(r"lo$|docker|br-[0-9a-f]{12}$|veth|virbr|cni|flannel")
# Temporary and deprecated addresses of IPv6 change by the day and are no way to reach a host.
_ADDRESS = re.compile(
    r"[0-9]+: (\S{1,40})\s+inet6? ([0-9a-fA-F.:]{2,45})(?:/([0-9]{1,3}))?"
    r".* scope global(?! .*(?:temporary|deprecated))"
)
_EXPECTED = ("kernel", "cpus", "load", "memory_total", "uptime", "boot_id", "disks")


def parse(output: str) -> Facts:
    """Read the output of `facts.sh`; what is missing, cut or unreadable is None, and named in `problems`."""
    framed = unframe(output)
    memory = _memory(framed.get("memory"))
    kernel = framed.get("kernel").lines
    uptime, time = _uptime(framed.get("uptime"))
    facts = Facts(
        os=_operating_system(framed.get("os").values()),
        kernel=first(kernel[:1]),
        arch=first(kernel[1:2]),
        hostname=first(kernel[2:3]),
        userland_arch=first(framed.get("userland").lines),
        model=hardware.model(framed.get("model").values()),
        cpus=_positive(first(framed.get("cpus").lines)),
        load=_load(framed.get("load")),
        memory_total=memory.get("MemTotal"),
        memory_available=_available(memory),
        swap_total=memory.get("SwapTotal"),
        swap_free=memory.get("SwapFree"),
        uptime=uptime,
        time=time,
        boot_id=_boot_id(framed.get("boot_id")),
        disks=hardware.disks(framed.get("disks"), framed.get("meant_read_only")) or None,
        temperature=hardware.temperature(framed.get("temperature")),
        throttling=hardware.throttling(framed.get("throttled")),
        failed_units=_failed_units(framed),
        clock_synchronised=_clock(framed.get("clock")),
        reboot=_reboot(framed, first(kernel[:1]), uptime, time),
        addresses=_addresses(framed.get("addresses")),
        default_interface=_default_interface(framed.get("route")),
        tools=_tools(framed),
        machine_id_hash=_machine(framed.get("machine")),
        problems=framed.problems,
    )
    unread = (name for name in _EXPECTED if getattr(facts, name) is None)
    notes = tuple(f"{name.replace('_', ' ')} could not be read" for name in unread)
    return replace(facts, problems=facts.problems + notes)


def _operating_system(values: Mapping[str, str]) -> OperatingSystem:
    if not values:
        return OperatingSystem()
    plain = {name: value.strip("\"'")[:200] or None for name, value in values.items()}
    os_id, version = plain.get("ID"), plain.get("VERSION_ID")
    raspberry = os_id == "raspbian" or "PIHERDER_RASPBERRY" in values
    return OperatingSystem(
        id=os_id,
        version=version,
        codename=plain.get("VERSION_CODENAME"),
        pretty_name=plain.get("PRETTY_NAME"),
        raspberry_pi_os=raspberry,
        proxmox_version=plain.get("PIHERDER_PROXMOX"),
        end_of_life=end_of_life(os_id, version),
    )


def _positive(text: str | None) -> int | None:
    value = integer(text)
    return value if value and value > 0 else None


def _load(section: Section) -> tuple[float, ...] | None:
    words = (first(section.lines) or "").split()[:3]
    numbers = tuple(value for value in map(number, words) if value is not None)
    return numbers if len(numbers) == 3 else None


def _memory(section: Section) -> dict[str, int]:
    """Read `MemTotal:  3884356 kB` lines of proc_meminfo(5) into bytes."""
    found = (re.fullmatch(r"(\w+):\s+([0-9]{1,15}) kB", line) for line in section.lines)
    return {match[1]: int(match[2]) * 1024 for match in found if match}


def _available(memory: Mapping[str, int]) -> int | None:
    """Kernels before 3.14 do not tell MemAvailable; free, buffers and cache come near."""
    if "MemAvailable" in memory or not {"MemFree", "Buffers", "Cached"} <= memory.keys():
        return memory.get("MemAvailable")
    return memory["MemFree"] + memory["Buffers"] + memory["Cached"]


def _uptime(section: Section) -> tuple[int | None, int | None]:
    seconds = number((first(section.lines[:1]) or "").split(" ")[0])
    time = _positive(first(section.lines[1:2]))
    return None if seconds is None else int(seconds), time


def _boot_id(section: Section) -> str | None:
    text = first(section.lines) or ""
    return text if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) else None


def _failed_units(framed: Framed) -> tuple[str, ...] | None:
    """An empty list counts only where systemctl ended well: without systemd nothing is known."""
    section = framed.sections.get("failed_units")
    if section is None or section.code != 0:
        return None
    # A bullet stands before the name where systemctl is older than --plain.
    names = (re.match(r"[^\w-]*([\w@:.\\-]{1,255})", line) for line in section.lines)
    return tuple(match[1] for match in names if match)[:100]


def _clock(section: Section) -> bool | None:
    """One witness that says yes is enough: chrony without rtcsync keeps time and the kernel's flag does not show it."""
    pattern = r"\s*(?:NTPSynchronized=|(?:System clock|NTP) synchronized: )(yes|no)|Leap status\s*: (Not|\w+)"
    found = [match for match in (re.match(pattern, line) for line in section.lines) if match]
    if not found:
        return None
    return any(match[1] == "yes" or (match[2] or "Not") != "Not" for match in found)


def _reboot(framed: Framed, running: str | None, uptime: int | None, time: int | None) -> Reboot:
    flag = framed.get("reboot_flag")
    packages = tuple(line.partition("=")[2][:100] for line in flag.lines if line.startswith("package="))
    there = any(line.startswith("flag=") for line in flag.lines)
    # A flag without a readable time counts as new.
    raised = integer(flag.values().get("flag")) if there else None
    booted = time - uptime if time is not None and uptime is not None else None
    if there and raised is None:
        raised, booted = 0, None
    return kernels.reboot(running, _installed(framed.get("kernels")), raised, packages, booted)


def _installed(section: Section) -> dict[str, int | None]:
    """Map the kernels of /boot to their time of installation.

    Raspberry Pi OS before 2023 has one image without a version (kernel8.img): there the folders of modules count.
    """
    times: dict[str, int | None] = {}
    images: list[str] = []
    for line in section.lines:
        match line.split():
            case ["image", release]:
                images.append(release)
            case ["modules", release, *rest]:
                times[release] = integer(rest[0]) if rest else None
    return {release: times.get(release) for release in images or times}


def _addresses(section: Section) -> tuple[Address, ...] | None:
    """Read `ip -o addr` (global scope only), or the bare list of `hostname -I`."""
    bare = next((line.split()[1:] for line in section.lines if line.startswith("list ")), None)
    if bare is not None:
        return tuple(Address(address[:60]) for address in bare[:50]) or None
    found = (_ADDRESS.match(line) for line in section.lines)
    outer = (match for match in found if match and not _INNER_INTERFACE.match(match[1]))
    return tuple(Address(match[2], match[1].split("@")[0], integer(match[3])) for match in outer)[:50] or None


def _default_interface(section: Section) -> str | None:
    """Return the interface of the default route with the lowest metric, IPv4 before IPv6."""
    found = (re.fullmatch(r"([46]) (\S{1,40}) ([0-9a-fA-F]{1,8})", line) for line in section.lines)
    # The metrics of IPv4 are decimal, those of IPv6 hexadecimal; read as hexadecimal both keep their order.
    routes = [(match[1], int(match[3], 16), match[2]) for match in found if match]
    return min(routes)[2] if routes else None


def _tools(framed: Framed) -> Tools:
    tools = _containers(framed.get("docker").values())
    if "tools" not in framed.sections:
        return tools
    there = framed.get("tools").lines
    version = re.match(r"rsync\s+version v?(\S{1,40})", first(framed.get("rsync").lines) or "")
    return replace(
        tools,
        package_manager=next((name for name in _MANAGERS if name in there), None),
        rsync="rsync" in there,
        rsync_version=version[1] if version else None,
        flock="flock" in there,
        systemd="systemd-running" in there,
        python3="python3" in there,
        sudo="sudo" in there,
    )


def _containers(values: Mapping[str, str]) -> Tools:
    """Tell the compose plugin from the program of version 1; a stand-alone program of version 2 is like the plugin."""
    docker = values.get("docker", "")
    program = _version(values.get("docker-compose"))
    old = program is not None and program.startswith("1.")
    return Tools(
        # Podman answers to the name docker too.
        docker=_version(docker) if docker.startswith("Docker") else None,
        compose=_version(values.get("compose-plugin")) or (None if old else program),
        compose_v1=program if old else None,
    )


def _version(text: str | None) -> str | None:
    found = re.search(r"[0-9]+\.[0-9][\w.+~-]{0,40}", text or "")
    return found[0] if found else None


def _machine(section: Section) -> str | None:
    found = re.match(r"([0-9a-f]{64})\b", first(section.lines) or "")
    return found[1] if found else None
