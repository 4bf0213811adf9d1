"""Settings of a herd's processes: the product's own, plus this folder as an app with points to strike at."""

from piherder.settings import *  # noqa: F403  # the way Django settings extend each other
from piherder.settings import DATA, INSTALLED_APPS, env

INSTALLED_APPS = [*INSTALLED_APPS, "tests.faults"]
FAULTS_CONTROL = DATA / "control"
FAULTS_SHORT_TIMES = env.flag("FAULTS_SHORT_TIMES", default=True)
