"""`python -m piherder.house run|first-admin|may-migrate`."""

from __future__ import annotations

import sys

from piherder import env
from piherder.house import folder, run


def first_admin() -> int:
    """Makes the first administrator with the password on standard input; says "created" or "exists"."""
    import django

    django.setup()
    from django.contrib.auth.models import User

    if User.objects.filter(is_superuser=True).exists():
        print("exists")
        return 0
    User.objects.create_superuser(username=run.ADMIN, email="", password=sys.stdin.read().strip())
    print("created")
    return 0


def may_migrate() -> int:
    """0 when no stack runs on the data folder, else 1 in words: its programs would meet tables they do not know."""
    if folder.is_running(env.data_folder()):
        print("PiHerder is running on this data; stop it before you change its database.", file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str]) -> int:
    """Runs the named part."""
    if arguments[:1] == ["run"]:
        return run.main(arguments[1:])
    if arguments[:1] == ["first-admin"]:
        return first_admin()
    if arguments[:1] == ["may-migrate"]:
        return may_migrate()
    print("Use: python -m piherder.house run [--bind A] [--port P]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
