"""`python -m bench.one NAME FILE [--quick]`: runs one case in this process and writes its results; see `place`."""

from __future__ import annotations

import json
import logging
import sys
from importlib import import_module
from pathlib import Path

import django
from django.conf import settings

from bench.cases import CASES


def main(arguments: list[str]) -> int:
    """Exit code."""
    name, answer = arguments[:2]
    django.setup()
    logging.getLogger().setLevel(logging.ERROR)
    case = import_module(f"bench.cases.{CASES[name].module}")
    results = case.run(Path(settings.DATA), "--quick" in arguments)
    Path(answer).write_text(json.dumps([result.to_json() for result in results]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
