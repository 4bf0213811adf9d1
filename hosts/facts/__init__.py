"""Facts of a host: one script over SSH (`argv`), one pure parser (`parse`), and their words."""

from hosts.facts.model import Address, Disk, Facts, OperatingSystem, Reboot, Throttling, Tools
from hosts.facts.parse import parse
from hosts.facts.script import argv
from hosts.facts.words import one_line, thin, warnings

__all__ = [
    "Address",
    "Disk",
    "Facts",
    "OperatingSystem",
    "Reboot",
    "Throttling",
    "Tools",
    "argv",
    "one_line",
    "parse",
    "thin",
    "warnings",
]
