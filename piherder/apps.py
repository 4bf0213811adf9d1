"""Django's view of the installation."""

import sys
from pathlib import Path

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in
from django.db.models.signals import post_migrate


class PiherderConfig(AppConfig):
    """The installation: the last of our apps, so that all models are there."""

    name = "piherder"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Start with keys that hold and a whole database, or not at all. Raises BadEnvironment.

        Each migrate brings the roles up to date.
        """
        from piherder import keys
        from piherder.accounts import roles, sessions
        from piherder.archive import unfinished

        post_migrate.connect(roles.make_groups, sender=self)
        user_logged_in.connect(sessions.on_login)
        named = sys.argv[1] if len(sys.argv) > 1 and Path(sys.argv[0]).name == "manage.py" else ""
        unfinished.require(named)
        keys.require(named)
