"""Facts in words: the one line of a list, the warnings of a page, the few numbers of the history."""

import datetime
from collections.abc import Iterator

from hosts.facts.model import Disk, Facts, OperatingSystem, Throttling

_NAMES = {"debian": "Debian", "ubuntu": "Ubuntu", "raspbian": "Raspberry Pi OS"}
_FULL_PERCENT = 90
_GIB = 2**30
_MIB = 2**20
_DAY = 86400


def one_line(facts: Facts) -> str:
    """Say what the host is: "Debian 12, 4 CPUs, 3.7 GiB memory, / 41 % full, up 12 d"; unknowns are left out."""
    root = next((disk for disk in facts.disks or () if disk.mount == "/"), None)
    parts = [
        os_name(facts.os),
        facts.cpus and f"{facts.cpus} CPU{'s' if facts.cpus > 1 else ''}",
        facts.memory_total and f"{_size(facts.memory_total)} memory",
        root and root.used_percent is not None and f"/ {root.used_percent} % full",
        facts.uptime is not None and f"up {_span(facts.uptime)}",
    ]
    return ", ".join(part for part in parts if part) or "nothing is known yet"


def os_name(system: OperatingSystem) -> str | None:
    """Return the short name people use: Raspberry Pi OS and Proxmox call themselves Debian."""
    if system.proxmox_version:
        return f"Proxmox VE {system.proxmox_version}"
    name = "Raspberry Pi OS" if system.raspberry_pi_os else _NAMES.get(system.id or "")
    if name and system.version:
        return f"{name} {system.version}"
    return system.pretty_name or name or system.id


def _size(size: int) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


def _span(seconds: int) -> str:
    if seconds >= _DAY:
        return f"{seconds // _DAY} d"
    return f"{seconds // 3600} h" if seconds >= 3600 else f"{seconds // 60} min"


def thin(facts: Facts) -> dict[str, float | None]:
    """Return the few numbers of the history: percent of memory and of the fullest disk, °C, seconds, load of 1 min."""
    used = [disk.used_percent for disk in facts.disks or () if disk.used_percent is not None]
    return {
        "load": facts.load[0] if facts.load else None,
        "memory_percent": _memory_percent(facts),
        "disk_percent": max(used, default=None),
        "temperature": facts.temperature,
        "uptime": facts.uptime,
    }


def _memory_percent(facts: Facts) -> int | None:
    if not facts.memory_total or facts.memory_available is None:
        return None
    return round(100 * (facts.memory_total - facts.memory_available) / facts.memory_total)


def warnings(facts: Facts, today: datetime.date | None = None) -> list[str]:
    """Return what a person should look at, one sentence each.

    `today` is held against the end of life; by default the day by this machine's clock, UTC.
    """
    today = today or datetime.datetime.now(datetime.UTC).date()
    found = [sentence for disk in facts.disks or () for sentence in _disk_warnings(disk)]
    if facts.throttling:
        found += _power_warnings(facts.throttling)
    if facts.failed_units:
        found.append(f"Failed units: {_some(facts.failed_units)}.")
    if facts.clock_synchronised is False:
        found.append("The clock is not synchronised.")
    if facts.reboot.required:
        found.append(f"A reboot is required: {'; '.join(facts.reboot.reasons)}{_packages(facts.reboot.packages)}.")
    end = facts.os.end_of_life
    if end and today > end:
        found.append(f"{os_name(facts.os)} has had no security updates since {end.isoformat()}: upgrade the system.")
    return found


def _disk_warnings(disk: Disk) -> Iterator[str]:
    if (disk.used_percent or 0) > _FULL_PERCENT:
        yield f"Disk {disk.mount} is {disk.used_percent} % full."
    if (disk.inodes_used_percent or 0) > _FULL_PERCENT:
        yield f"Disk {disk.mount} has used {disk.inodes_used_percent} % of its inodes."
    if disk.read_only and not disk.meant_read_only:
        yield f"Disk {disk.mount} is mounted read-only: look for disk errors in the kernel log."


def _power_warnings(bits: Throttling) -> Iterator[str]:
    if "under-voltage" in bits.now:
        yield "The power supply is too weak: under-voltage now."
    elif "under-voltage" in bits.since_boot:
        yield "The power supply is too weak: there was under-voltage since the boot."
    slowed = [name for name in bits.now if name != "under-voltage"]
    if slowed:
        yield f"The processor is slowed down: {', '.join(slowed)}."


def _some(names: tuple[str, ...], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _packages(names: tuple[str, ...]) -> str:
    return f" (packages {_some(names)})" if names else ""
