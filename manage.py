#!/usr/bin/env python3
"""Django's command line for this installation."""

import os
import sys

from piherder.env import BadEnvironment, use_settings


def main() -> None:
    """Run the command named in argv."""
    os.umask(0o077)
    use_settings()
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except BadEnvironment as refusal:
        sys.exit(str(refusal))


if __name__ == "__main__":
    main()
