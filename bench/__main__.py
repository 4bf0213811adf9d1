"""`python -m bench [--only NAME ...] [--quick] [--json FILE]`: measures every pair and prints one table."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.cases import CASES
from bench.figures import Result, table
from bench.place import CaseFailed, measure
from piherder.house.folder import CLONE, Refused
from piherder.house.stack import program


def parse(arguments: list[str]) -> argparse.Namespace:
    """Command line. Exits with 2 on wrong use."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    listed = ", ".join(f"{name} ({case.what})" for name, case in CASES.items())
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="NAME", help=listed)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works; no figures to quote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    parser.add_argument("--yes", action="store_true", help="do not ask during the set-up")
    return parser.parse_args(arguments)


def require_ansible() -> None:
    """Install what only the benchmark needs. Raises Refused."""
    if Path(program("ansible")).exists():
        return
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    print("Installing ansible-core for the comparison …", file=sys.stderr, flush=True)
    if subprocess.run([*command, "-r", str(CLONE / "requirements-bench.txt")]).returncode:
        raise Refused("ansible-core could not be installed: check the network, or leave the case out with --only.")


def collect(names: list[str], quick: bool) -> tuple[list[Result], int]:
    """Results of the named cases in order, and how many failed: those are told and leave the others their turn."""
    results: list[Result] = []
    failed = 0
    for name in names:
        print(f"measuring: {CASES[name].what} …", file=sys.stderr, flush=True)
        try:
            results += measure(name, CASES[name].embedded, quick)
        except (CaseFailed, subprocess.TimeoutExpired) as failure:
            print(failure, file=sys.stderr)
            failed += 1
    return results, failed


def main(arguments: list[str]) -> int:
    """Exit code: 0 when everything was measured, whether or not it reached its aim."""
    os.umask(0o077)
    options = parse(arguments)
    names = options.only or list(CASES)
    try:
        if "facts" in names:
            require_ansible()
        results, failed = collect(names, options.quick)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(table(results))
    if options.json:
        options.json.write_text(json.dumps([result.to_json() for result in results], indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
