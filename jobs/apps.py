"""Django's view of this app."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """The engine."""

    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Fill the closed registry of kinds from every app's `families`."""
        from jobs import registry

        registry.discover()
