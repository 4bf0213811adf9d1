"""The systemd units of an installation, rendered from the templates beside this file; writes nothing itself."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from piherder.house.layout import PARTS, REDIS, TARGET, USER, Layout, unit

TEMPLATES = Path(__file__).with_name("units")
BLOCK = re.compile(r"@(SERVICE|HARDENING|ANYWHERE|ONLY_DATA)@")
BLOCKS = {
    "SERVICE": "service.conf",
    "HARDENING": "hardening.conf",
    "ANYWHERE": "anywhere.conf",
    "ONLY_DATA": "only-data.conf",
}
VALUE = re.compile(r"@([A-Z_]+)@")
MORE_WORKERS = "piherder-worker@.service"
LOWEST_FREE_PORT = 1024  # below it the kernel asks for CAP_NET_BIND_SERVICE
STOP_MARGIN = 15  # seconds between the longest orderly end and systemd's SIGKILL


@dataclass(frozen=True, slots=True)
class Facts:
    """What the units depend on; `stop_seconds` is what a worker may need to end in order."""

    layout: Layout
    data: Path
    port: int
    own_redis: bool
    own_postgresql: bool
    stop_seconds: float
    user: str = USER


def word(value: object) -> str:
    """One word of a unit file: quoted, with `%` and `\\` literal. Raises ValueError for a line break."""
    text = str(value)
    if "\n" in text:
        raise ValueError("A unit file holds no line break inside a word.")
    text = text.replace("\\", "\\\\").replace("%", "%%").replace('"', '\\"')
    return f'"{text}"' if re.search(r"[\s\"';\\]", text) else text


def template(name: str) -> str:
    """A template with its blocks put in."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    return BLOCK.sub(lambda found: (TEMPLATES / BLOCKS[found[1]]).read_text(encoding="utf-8").rstrip("\n"), text)


def fill(text: str, values: dict[str, str]) -> str:
    """The text with each `@NAME@` replaced. Raises KeyError for a name that is not in `values`."""
    return VALUE.sub(lambda found: values[found[1]], text)


def values(facts: Facts) -> dict[str, str]:
    """What the templates' names stand for, the same in each unit."""
    needs = [unit(REDIS)] * facts.own_redis + ["postgresql.service"] * facts.own_postgresql
    return {
        "USER": facts.user,
        "CODE": word(facts.layout.code),
        "CURRENT": word(facts.layout.current),
        "PYTHON": word(facts.layout.current / ".venv/bin/python"),
        "SETTINGS": word(facts.layout.settings),
        "DATA": word(facts.data),
        "NEEDS": " ".join(needs),
        "STOP_SECONDS": str(math.ceil(facts.stop_seconds) + STOP_MARGIN),
        "CAPABILITIES": "",
    }


def render(facts: Facts) -> dict[str, str]:
    """Text of every unit by its file name."""
    common = values(facts)
    one = {"UNIT": "piherder-worker", "WHICH": "", "NAMED": ""}
    more = {"UNIT": "piherder-worker@", "WHICH": " %i", "NAMED": " --name %i"}
    low = {"CAPABILITIES": "CAP_NET_BIND_SERVICE"} if facts.port < LOWEST_FREE_PORT else {}
    found = {
        unit("web"): fill(template(unit("web")), {**common, **low}),
        unit("beat"): fill(template(unit("beat")), common),
        unit("worker"): fill(template("worker.service"), {**common, **one}),
        MORE_WORKERS: fill(template("worker.service"), {**common, **more}),
        TARGET: template(TARGET),
    }
    if facts.own_redis:
        found[unit(REDIS)] = fill(template(unit(REDIS)), common)
    return found


def services(own_redis: bool) -> list[str]:
    """The services of one installation, in the order in which they start."""
    return [unit(part) for part in ((REDIS, *PARTS) if own_redis else PARTS)]
