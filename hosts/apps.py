"""Django's view of this app."""

from django.apps import AppConfig


class HostsConfig(AppConfig):
    """Machines and what is done on them."""

    name = "hosts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Give the engine its way to a host."""
        from hosts import gate

        gate.install()
