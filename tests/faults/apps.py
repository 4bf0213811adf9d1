"""Makes this folder an app of the herd's processes: its kinds, its gate, its points and its short times."""

from django.apps import AppConfig
from django.conf import settings


class FaultsConfig(AppConfig):
    """Loaded last, so that it wraps what the product has set up."""

    name = "tests.faults"
    label = "faults"

    def ready(self) -> None:
        """Set the traps."""
        from jobs import registry
        from tests.faults import families, gate, points, tempo

        families.install()
        registry.install_gate(gate.FileGate(settings.FAULTS_CONTROL))
        points.install(settings.FAULTS_CONTROL)
        if settings.FAULTS_SHORT_TIMES:
            tempo.shorten()
