"""Disks, sensors and names of the machine, from their sections."""

import re
from collections.abc import Iterable, Mapping

from hosts.facts.framing import Section, integer, number
from hosts.facts.model import Disk, Throttling

_BITS = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "soft temperature limit"}
_SINCE_BOOT = 16
_PROCESSOR = re.compile(r"cpu|x86_pkg_temp|soc|coretemp|k10temp|zenpower", re.IGNORECASE)
# Board makers that leave the form unfilled.
_NO_NAME = re.compile(r"to be filled|o\.e\.m\.|system (product|manufacturer)|default string|not specified|^none$", re.I)


def throttling(section: Section) -> Throttling | None:
    """Decode `throttled=0x50005`: bits 0 to 3 hold now, bits 16 to 19 have held since the boot.

    Source: Raspberry Pi documentation, "vcgencmd", get_throttled. The kernel file prints the same number bare.
    """
    for line in section.lines:
        found = re.fullmatch(r"(?:throttled=)?(?:0x)?([0-9a-fA-F]{1,8})", line.strip())
        if found:
            bits = int(found[1], 16)
            return Throttling(_names(bits), _names(bits >> _SINCE_BOOT))
    return None


def _names(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in _BITS.items() if bits >> bit & 1)


def temperature(section: Section) -> float | None:
    """Return the processor's temperature in °C: its own sensors, else the firmware's, else the warmest of all."""
    sensors = _sensors(section.lines)
    own = [degrees for name, degrees in sensors if _PROCESSOR.search(name)]
    firmware = [degrees for name, degrees in sensors if name == "vcgencmd"]
    return max(own or firmware or [degrees for _, degrees in sensors], default=None)


def _sensors(lines: Iterable[str]) -> list[tuple[str, float]]:
    names: dict[str, str] = {}
    readings: dict[str, str] = {}
    for line in lines:
        path, _, value = line.partition(":")
        folder, _, leaf = path.rpartition("/")
        if leaf in ("type", "name"):
            names[folder] = value.strip()
        elif leaf in ("temp", "temp1_input"):
            readings[folder] = value.strip()
        elif line.startswith("temp="):
            names["vcgencmd"], readings["vcgencmd"] = "vcgencmd", line[5:].split("'")[0].strip()
    found = ((names.get(folder, ""), _degrees(value)) for folder, value in readings.items())
    return [(name, degrees) for name, degrees in found if degrees is not None]


def _degrees(text: str) -> float | None:
    """Sensors tell thousandths of a degree, some drivers whole degrees; a sensor that is off tells 0 or nonsense."""
    value = number(text)
    if not value:
        return None
    degrees = value / 1000 if abs(value) >= 1000 else value
    return round(degrees, 1) if -40 <= degrees <= 150 else None


def model(values: Mapping[str, str]) -> str | None:
    """Name the machine: the device tree's model on boards, vendor and product by DMI on PCs."""
    keys = ["device_tree"] if "device_tree" in values else ["sys_vendor", "product_name"]
    named = [values[key] for key in keys if key in values and not _NO_NAME.search(values[key])]
    if len(named) == 2 and named[1].startswith(named[0]):
        named = named[1:]
    return " ".join(named)[:200] or None


def disks(section: Section, meant_read_only: Section) -> tuple[Disk, ...]:
    """Read the disks, one per device: the one that is mounted nearest to the root stands for its other mounts."""
    meant = {unescape(line.strip()) for line in meant_read_only.lines}
    every = (_disk(line.split(" "), meant) for line in section.lines)
    chosen: dict[str, Disk] = {}
    for disk in sorted((disk for disk in every if disk), key=lambda disk: (len(disk.mount), disk.mount)):
        chosen.setdefault(disk.device, disk)
    return tuple(sorted(chosen.values(), key=lambda disk: disk.mount))


def _disk(words: list[str], meant: set[str]) -> Disk | None:
    """Read `device mount type options` of proc(5) and `%S %b %f %a %c %d` of stat(1)."""
    if len(words) < 4 or not words[1].startswith("/"):
        return None
    device, mount = unescape(words[0]), unescape(words[1])
    options = words[3].split(",")
    numbers = [integer(word) for word in words[4:10]]
    read_only = "ro" in options or "emergency_ro" in options
    return Disk(mount, device, words[2], *_sizes(numbers), read_only, mount in meant)


def _sizes(numbers: list[int | None]) -> tuple[int | None, int | None, int | None, int | None, int | None]:
    match numbers:
        case [int(block), int(total), int(unused), int(free), inodes, inodes_free] if total > 0:
            counted = inodes is not None and inodes > 0
            sizes = total * block, (total - unused) * block, free * block
            return *sizes, inodes if counted else None, inodes_free if counted else None
    return None, None, None, None, None


def unescape(text: str) -> str:
    """Undo the octal escapes (blank, tab, line end, backslash) of /proc/mounts and /etc/fstab, see getmntent(3)."""
    plain = re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found[1], 8)), text)
    return re.sub(r"[\x00-\x1f]", "?", plain)
