"""The frame around the sections of the facts script, and numbers and text from a stranger's output."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SECTIONS = (
    "os",
    "kernel",
    "userland",
    "model",
    "cpus",
    "load",
    "memory",
    "uptime",
    "boot_id",
    "disks",
    "meant_read_only",
    "temperature",
    "throttled",
    "failed_units",
    "clock",
    "reboot_flag",
    "kernels",
    "addresses",
    "route",
    "docker",
    "tools",
    "rsync",
    "machine",
)

_MARKER = re.compile(r"@@piherder (begin|end|late) (\S{1,60})(?: ([0-9]{1,3}))?$")
_TEXT_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Section:
    """The non-empty lines of one section and the exit code of its last command."""

    lines: tuple[str, ...] = ()
    code: int = 0

    def values(self) -> dict[str, str]:
        """Read `name=value` lines; the first of a name counts, empty values are left out."""
        found: dict[str, str] = {}
        for line in self.lines:
            name, _, value = line.partition("=")
            if value.strip():
                found.setdefault(name.strip(), value.strip())
        return found


@dataclass(frozen=True, slots=True)
class Framed:
    """The whole sections of an output, and sentences about those that are missing, cut or late."""

    sections: Mapping[str, Section]
    problems: tuple[str, ...]

    def get(self, name: str) -> Section:
        """Return the section, an empty one where it did not arrive whole."""
        return self.sections.get(name, Section())


def unframe(output: str) -> Framed:
    """Cut the output into sections. What stands outside them (a banner, a shell's greeting) is dropped.

    A section without its end is dropped whole: its last number may be half a number.
    """
    sections: dict[str, Section] = {}
    problems: list[str] = []
    name: str | None = None
    lines: list[str] = []
    for line in clean(output).split("\n"):
        marker = _MARKER.match(line)
        if marker is None:
            lines.append(line)
        elif marker[1] == "begin":
            name, lines = marker[2], []
        elif marker[1] == "late":
            problems.append(f"{marker[2]} did not answer in time")
        elif name is not None and marker[2] == name:
            sections.setdefault(name, Section(_filled(lines), int(marker[3] or 0)))
            name = None
    missing = [f"section {each} did not arrive whole" for each in SECTIONS if each not in sections]
    return Framed(sections, tuple(dict.fromkeys(problems + missing)))


def clean(output: str) -> str:
    """Take out what databases and pages refuse: NUL and other control characters, halves of surrogate pairs."""
    printable = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", output)
    return printable.encode("utf-8", "replace").decode("utf-8")


def _filled(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in lines if line.strip())


def integer(text: str | None) -> int | None:
    """Read a whole number, None for anything else."""
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,18}", text) else None


def number(text: str | None) -> float | None:
    """Read a decimal number, None for anything else."""
    return float(text) if text and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text) else None


def first(lines: Iterable[str]) -> str | None:
    """Return the first line, cut to a sane length, or None."""
    return next((line.strip()[:_TEXT_LIMIT] for line in lines), None) or None
