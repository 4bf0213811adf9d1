"""The kinds of work on the herder itself. A new kind is one file, one import line here, one test file."""

from piherder.families import herder_backup

__all__ = ("herder_backup",)
