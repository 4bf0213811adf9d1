"""`python -m tests.lab up [NAME …] [--docker]` starts hosts for a developer's own hands, `down` removes them."""

from __future__ import annotations

import argparse
import sys

from tests.lab.base import LabError
from tests.lab.lab import Lab, sweep, unavailable


def up(names: list[str], docker: bool) -> None:
    """Start hosts that stay, with this user's keys let in, and say how to reach them."""
    lab = Lab(keep=True)
    lab.start()
    try:
        hosts = [lab.make_host(name, docker=docker) for name in names]
    except BaseException:
        lab.stop()
        raise
    print(f"export DOCKER_HOST=unix://{lab.engine.socket}")
    for host in hosts:
        print(f"{host.name}  {host.address}  docker exec -it {host.name} bash")


def main(arguments: list[str]) -> int:
    """Exit code; a sentence on stderr when it is not 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    parser.add_argument("what", choices=("up", "down"))
    parser.add_argument("names", nargs="*", default=["pi1", "pi2"])
    parser.add_argument("--docker", action="store_true", help="start an engine on each host too")
    parser.add_argument("--yes", action="store_true", help="do not ask during the set-up")
    found = parser.parse_args(arguments)
    if reason := unavailable():
        print(reason, file=sys.stderr)
        return 1
    try:
        if found.what == "up":
            up(found.names or ["pi1", "pi2"], found.docker)
        else:
            print(f"Removed: {', '.join(map(str, sweep(kept=True))) or 'nothing was up'}.")
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
