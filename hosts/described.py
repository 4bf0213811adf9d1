"""Facts as pairs of a name and a value, as the host's page lists them; what is unknown is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.facts.words import os_name
from jobs.spans import size, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.facts.model import Facts

Pairs = list[tuple[str, str]]


def described(facts: Facts | None) -> Pairs:
    """What is known about a host."""
    if facts is None:
        return []
    return [(name, text) for name, tell in ROWS if (text := tell(facts))]


def _processor(facts: Facts) -> str:
    cores = f"{facts.cpus} × {facts.arch or 'unknown'}" if facts.cpus else facts.arch or ""
    load = " ".join(f"{value:.2f}" for value in facts.load or ())
    return f"{cores}, load {load}" if load else cores


def _memory(facts: Facts) -> str:
    if facts.memory_total is None:
        return ""
    free = f"{size(facts.memory_available)} of " if facts.memory_available is not None else ""
    return f"{free}{size(facts.memory_total)} free" if free else size(facts.memory_total)


def _swap(facts: Facts) -> str:
    if facts.swap_total is None:
        return ""
    return f"{size(facts.swap_free)} of {size(facts.swap_total)} free" if facts.swap_total else "none"


def _addresses(facts: Facts) -> str:
    return ", ".join(each.address for each in facts.addresses or ())


def _tools(facts: Facts) -> str:
    tools = facts.tools
    found = {"rsync": tools.rsync_version, "Docker": tools.docker, "Compose": tools.compose or tools.compose_v1}
    return ", ".join(f"{name} {version}" for name, version in found.items() if version)


def _clock(facts: Facts) -> str:
    if facts.clock_synchronised is None:
        return ""
    return "synchronised" if facts.clock_synchronised else "not synchronised"


ROWS: tuple[tuple[str, Callable[[Facts], str | None]], ...] = (
    ("System", lambda facts: os_name(facts.os)),
    ("Model", lambda facts: facts.model),
    ("Kernel", lambda facts: facts.kernel),
    ("Processor", _processor),
    ("Memory", _memory),
    ("Swap", _swap),
    ("Up", lambda facts: None if facts.uptime is None else span(facts.uptime)),
    ("Temperature", lambda facts: None if facts.temperature is None else f"{facts.temperature:.0f} °C"),
    ("Clock", _clock),
    ("Addresses", _addresses),
    ("Programs", _tools),
    ("Not read", lambda facts: "; ".join(facts.problems)),
)
