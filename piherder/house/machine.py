"""Whether PiHerder can be installed on this machine: looked at before anything is changed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = {"amd64", "arm64"}  # as dpkg names x86_64 and aarch64
FAMILY = {"debian", "ubuntu", "raspbian"}


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides; `architecture` is dpkg's, "" without dpkg, `bits` those of this Python."""

    family: frozenset[str]
    architecture: str
    bits: int
    init: str
    is_root: bool


def os_family(text: str) -> frozenset[str]:
    """ID and ID_LIKE from the text of os-release(5)."""
    found = re.findall(r"^(?:ID|ID_LIKE)=[\"']?([^\"'\n]*)", text, re.MULTILINE)
    return frozenset(word for words in found for word in words.split())


def refusal(machine: Machine, target: str = "install") -> str:
    """Why `make <target>` cannot go on here, as one sentence; "" when it can."""
    if not machine.family & FAMILY or not machine.architecture:
        return (
            "PiHerder installs itself on Debian, Ubuntu and Raspberry Pi OS, and this is another system; use docker/."
        )
    if machine.architecture not in ARCHITECTURES or machine.bits != 64:
        return (
            f"PiHerder needs a 64-bit system (amd64 or arm64), and this one is {machine.architecture} with "
            f"{machine.bits}-bit programs: put the 64-bit image of your system on it. Nothing was changed."
        )
    if machine.init != "systemd":
        return "PiHerder installs services for systemd, which does not run here: use `make run`, or docker/."
    return "" if machine.is_root else f"Installed services belong to root: start it again with sudo make {target}."


def look(root: Path = Path("/")) -> Machine:
    """This machine."""
    release, init = root / "etc/os-release", root / "proc/1/comm"
    return Machine(
        family=os_family(release.read_text(encoding="utf-8") if release.is_file() else ""),
        architecture=dpkg_architecture(),
        bits=64 if sys.maxsize > 2**32 else 32,
        init=init.read_text(encoding="utf-8").strip() if init.is_file() else "",
        is_root=os.geteuid() == 0,
    )


def dpkg_architecture() -> str:
    """The architecture of this system's packages: it is 32 bits on a 64-bit kernel, too; "" without dpkg."""
    try:
        return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""
