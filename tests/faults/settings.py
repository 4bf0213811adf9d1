"""Settings of a herd's processes: the product's own, plus this folder as an app with points to strike at."""

from piherder.settings import *  # noqa: F403  # the way Django settings extend each other
from piherder.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.faults"]
