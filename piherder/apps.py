"""Django's view of the installation."""

import sys
from pathlib import Path

from django.apps import AppConfig


class PiherderConfig(AppConfig):
    """The installation: the last of our apps, so that all models are there."""

    name = "piherder"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Start with keys that hold, or not at all. Raises BadEnvironment."""
        from piherder import keys

        named = sys.argv[1] if len(sys.argv) > 1 and Path(sys.argv[0]).name == "manage.py" else ""
        keys.require(named)
