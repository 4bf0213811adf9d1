"""Kinds that exist for these tests, each with one trait that the engine must keep."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from django import forms

from jobs.registry import Family, JobFailed, Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.models import Job
    from jobs.run import LiveRun


class TagForm(forms.Form):
    """One parameter."""

    tag = forms.CharField(required=False, max_length=10)


class Work(Family):
    """Does what the test says."""

    kind, label = "work", "Work"
    lanes: ClassVar[tuple[str, ...]] = ("work",)
    form_class = TagForm
    todo: ClassVar[Callable[[LiveRun], Summary]] = lambda run: Summary("Done.", {"n": 1})

    def run(self, run: LiveRun) -> Summary:  # type: ignore[override]  # these kinds see the live run itself
        """Whatever the test put there."""
        return type(self).todo(run)


class Copy(Work):
    """Holds the host's mutex."""

    kind, label, lanes = "copy", "Copy", ("backup",)
    mutex = leaves_a_slot = catch_up = True


class Bring(Work):
    """Copies too, under another lane, as a move does."""

    kind, label, lanes = "bring", "Bring", ("bring",)
    mutex = True


class Wide(Work):
    """Holds more lanes, as a reboot does."""

    kind, label, lanes = "wide", "Wide", ("work", "backup", "look")


class Look(Work):
    """Only reads."""

    kind, label, lanes = "look", "Look", ("look",)


class Chore(Work):
    """Has no host and keeps no log of a good run."""

    kind, label, lanes = "chore", "Chore", ("chore",)
    needs_host = keep_log = False


class Loose(Work):
    """Any number at once."""

    kind, label, lanes = "loose", "Loose", ()
    needs_host = exclusive = False


class Brief(Work):
    """Expires, and is hinted once."""

    kind, label, lanes = "brief", "Brief", ("brief",)
    expires = timedelta(seconds=120)


class Stiff(Work):
    """Cannot be cancelled once it runs."""

    kind, label, lanes = "stiff", "Stiff", ("stiff",)
    cancellable = False


class Settled(Work):
    """Its end can be read from the host."""

    kind, label, lanes = "settled", "Settled", ("settled",)
    found: ClassVar[Callable[[Job], Summary | JobFailed | None]] = lambda job: Summary("The host says it ended well.")

    def settle(self, job: Job) -> Summary | JobFailed | None:
        """Whatever the test put there."""
        return type(self).found(job)


ALL: tuple[type[Work], ...] = (Work, Copy, Bring, Wide, Look, Chore, Loose, Brief, Stiff, Settled)


def installed() -> dict[str, Family]:
    """One of each, by name."""
    return {cls.kind: cls() for cls in ALL}
