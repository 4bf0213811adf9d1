"""`python -m piherder.house run|serve|first-admin|may-migrate|herd|copy-database|restore-database`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from piherder import env
from piherder.house import database_copy, folder, form, herd, run, serve

if TYPE_CHECKING:
    from collections.abc import Callable


def first_admin(_arguments: list[str]) -> int:
    """Makes the first administrator with the password on standard input; says "created" or "exists"."""
    import django

    django.setup()
    from piherder.accounts.people import make_first_admin

    print("created" if make_first_admin(run.ADMIN, sys.stdin.read().strip()) else "exists")
    return 0


def may_migrate(_arguments: list[str]) -> int:
    """0 when no stack runs on the data folder, else 1 in words: its programs would meet tables they do not know."""
    if folder.is_running(env.data_folder()) or form.services_run():
        print("PiHerder is running on this data; stop it before you change its database.", file=sys.stderr)
        return 1
    return 0


PARTS: dict[str, Callable[[list[str]], int]] = {
    "run": run.main,
    "serve": serve.main,
    "first-admin": first_admin,
    "may-migrate": may_migrate,
    "herd": lambda _arguments: herd.main(),
    "copy-database": database_copy.copy_main,
    "restore-database": database_copy.restore_main,
}


def main(arguments: list[str]) -> int:
    """Runs the named part."""
    if arguments[:1] and arguments[0] in PARTS:
        return PARTS[arguments[0]](arguments[1:])
    print("Use: python -m piherder.house run [--bind A] [--port P]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
