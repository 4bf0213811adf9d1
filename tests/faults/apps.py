"""Makes this folder an app of the herd's processes: its kinds, its gate, its points and its short times."""

from django.apps import AppConfig

from piherder import env


class FaultsConfig(AppConfig):
    """Loaded last, so that it wraps what the product has set up."""

    name = "tests.faults"
    label = "faults"

    def ready(self) -> None:
        """Set the traps."""
        from jobs import registry
        from tests.faults import families, gate, points, tempo
        from tests.faults.hosts import points as host_points
        from tests.faults.hosts import tempo as host_tempo

        control = env.data_folder() / "control"
        families.install()
        if not env.flag("FAULTS_REAL_HOSTS"):
            registry.install_gate(gate.FileGate(control))
        points.install(control)
        if env.flag("FAULTS_SHORT_TIMES", default=True):
            tempo.shorten()
        if env.flag("FAULTS_REAL_HOSTS"):
            host_points.install(control)
            host_tempo.shorten()
