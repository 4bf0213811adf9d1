"""Django's view of this app."""

from django.apps import AppConfig


class StacksConfig(AppConfig):
    """Compose projects on the hosts."""

    name = "stacks"
