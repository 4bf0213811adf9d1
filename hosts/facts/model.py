"""What is known about a host. Every field may be None: unknown is never told as zero or as no."""

from __future__ import annotations

import dataclasses
import datetime
import math
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class OperatingSystem:
    """The distribution, from /etc/os-release; `end_of_life` is the last day with free security updates."""

    id: str | None = None
    version: str | None = None
    codename: str | None = None
    pretty_name: str | None = None
    raspberry_pi_os: bool | None = None
    proxmox_version: str | None = None
    end_of_life: datetime.date | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """One mounted block device, in bytes and inodes; free is what a user without root gets.

    File systems that make inodes as they go (vfat, btrfs) have none to count. `meant_read_only` is what fstab says.
    """

    mount: str
    device: str
    fstype: str
    bytes_total: int | None = None
    bytes_used: int | None = None
    bytes_free: int | None = None
    inodes_total: int | None = None
    inodes_free: int | None = None
    read_only: bool | None = None
    meant_read_only: bool | None = None

    @property
    def used_percent(self) -> int | None:
        """Share of the bytes that are taken, 0 to 100, as `df` counts it: without the reserve for root, rounded up."""
        return _used_percent(self.bytes_used, self.bytes_free)

    @property
    def inodes_used_percent(self) -> int | None:
        """Share of the inodes that are taken, 0 to 100."""
        if self.inodes_total is None or self.inodes_free is None:
            return None
        return _used_percent(self.inodes_total - self.inodes_free, self.inodes_free)


@dataclass(frozen=True, slots=True)
class Address:
    """One global address of the host and the interface it is on, when known."""

    address: str
    interface: str | None = None
    prefix: int | None = None


@dataclass(frozen=True, slots=True)
class Throttling:
    """Names of the bits that are set, now and since the boot, see `hosts.facts.hardware.throttling`."""

    now: tuple[str, ...] = ()
    since_boot: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reboot:
    """Whether a reboot is required and by which signs; `notes` explain signs that were set aside."""

    required: bool | None = None
    reasons: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs on the host. `compose` is the version of the plugin (v2), `compose_v1` of the old Python program."""

    package_manager: str | None = None
    rsync: bool | None = None
    rsync_version: str | None = None
    flock: bool | None = None
    systemd: bool | None = None
    python3: bool | None = None
    sudo: bool | None = None
    docker: str | None = None
    compose: str | None = None
    compose_v1: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of one host at one moment.

    Memory and swap are bytes, uptime is seconds, `time` is seconds since 1970 by the host's own clock, temperature is
    degrees Celsius of the processor (the warmest sensor where none says so). `problems` names what could not be read.
    """

    os: OperatingSystem = OperatingSystem()
    hostname: str | None = None
    kernel: str | None = None
    arch: str | None = None
    userland_arch: str | None = None
    model: str | None = None
    cpus: int | None = None
    load: tuple[float, ...] | None = None
    memory_total: int | None = None
    memory_available: int | None = None
    swap_total: int | None = None
    swap_free: int | None = None
    uptime: int | None = None
    time: int | None = None
    boot_id: str | None = None
    disks: tuple[Disk, ...] | None = None
    temperature: float | None = None
    throttling: Throttling | None = None
    failed_units: tuple[str, ...] | None = None
    clock_synchronised: bool | None = None
    reboot: Reboot = Reboot()
    addresses: tuple[Address, ...] | None = None
    default_interface: str | None = None
    tools: Tools = Tools()
    machine_id_hash: str | None = None
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `json.dumps` takes; dates become ISO text."""
        plain = _plain(self)
        assert isinstance(plain, dict)
        return plain

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Rebuild facts from `to_json`. Fields that were added since are unknown, so that old rows stay readable."""
        return typing.cast("Self", _build(cls, stored))


def _used_percent(used: int | None, free: int | None) -> int | None:
    if used is None or free is None or used + free <= 0:
        return None
    return math.ceil(100 * used / (used + free))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


def _build(kind: type[Any], stored: Mapping[str, Any]) -> Any:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: _value(hints[name], stored[name]) for name in names if name in stored})


def _value(hint: Any, stored: Any) -> Any:
    """Turn a JSON value into what the annotation names."""
    if isinstance(hint, types.UnionType):
        hint = next(member for member in typing.get_args(hint) if member is not type(None))
    if stored is None:
        return None
    if hint is datetime.date:
        return datetime.date.fromisoformat(stored)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, stored)
    if typing.get_origin(hint) is tuple:
        return _items(typing.get_args(hint)[0], stored)
    return stored


def _items(hint: Any, stored: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_value(hint, item) for item in stored)
