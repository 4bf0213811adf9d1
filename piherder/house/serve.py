"""One program of an installation in the place of this process: what a unit or a container starts."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from typing import TYPE_CHECKING

from piherder import env
from piherder.house import stack
from piherder.house.folder import Refused
from piherder.house.layout import PARTS, REDIS
from piherder.house.servers import PrivateRedis

if TYPE_CHECKING:
    from typing import NoReturn


def options() -> stack.Options:
    """PIHERDER_DATA, PIHERDER_BIND and PIHERDER_PORT. Raises BadEnvironment."""
    return stack.Options(
        env.data_folder(), env.text("PIHERDER_BIND", "127.0.0.1"), env.number("PIHERDER_PORT", 8000, 1, 65535)
    )


def command(part: str, name: str = "") -> tuple[str, ...]:
    """What runs `part`; `name` sets a further worker of this machine apart. Raises Refused, BadEnvironment."""
    if part == REDIS:
        return tuple(PrivateRedis(env.data_folder() / "redis").command())
    if part == "web":
        return stack.web_command(options())
    return stack.beat_command() if part == "beat" else stack.worker_command(name)


def environment() -> dict[str, str]:
    """Ours, with the names under which a browser may ask for the pages as they are now."""
    names = stack.own_names(options().bind, socket.gethostname(), stack.own_addresses())
    return env.child_environment(
        PIHERDER_HOSTS=" ".join([*env.words("PIHERDER_HOSTS"), *names]),
        DJANGO_SETTINGS_MODULE="piherder.settings",
        PYTHONUNBUFFERED="1",
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    """`web|worker|beat|redis [--name NAME]`."""
    parser = argparse.ArgumentParser(prog="python -m piherder.house serve", description=__doc__)
    parser.add_argument("part", choices=(*PARTS, REDIS))
    parser.add_argument("--name", default="", help="of a further worker on this machine")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> NoReturn:
    """Becomes the program; the process stays the same, so that its supervisor keeps hold of it."""
    found = parse(arguments)
    os.umask(0o077)
    try:
        argv, changed = command(found.part, found.name), environment()
    except (Refused, env.BadEnvironment) as refusal:
        sys.exit(str(refusal))
    os.execve(argv[0], argv, changed)
