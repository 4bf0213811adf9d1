"""Kinds that only the faults need: some hold everything that a backup holds, one has an unreasonable log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms

from jobs import registry, test_kinds
from jobs.registry import Family, Summary, UnknownKind
from jobs.test_kinds import Sleep

if TYPE_CHECKING:
    from jobs.registry import Params
    from jobs.run import LiveRun


class Copy(Sleep):
    """A sleep with a host, its lane, the mutex and the fence: what every kind that runs rsync holds."""

    kind, label = "copy", "Copy"
    needs_host = True
    exclusive = True
    mutex = True
    lanes = ("backup",)

    def lanes_of(self, host_id: int | None, params: Params) -> tuple[str, ...]:
        """The declared lane."""
        return self.lanes


class OtherCopy(Copy):
    """Another kind that copies: its lane is free beside a `copy`, the host's mutex is not."""

    kind, label = "other_copy", "Copy otherwise"
    lanes = ("other",)


class ShoutForm(forms.Form):
    """Parameters of `shout`."""

    size = forms.IntegerField(min_value=1, help_text="Characters of its one line.")


class Shout(Family):
    """Logs one line of any size."""

    kind, label = "shout", "Shout"
    needs_host = False
    exclusive = False
    form_class = ShoutForm

    def run(self, run: LiveRun) -> Summary:  # type: ignore[override]  # test kinds see the live run itself
        """One line."""
        run.log("x" * run.params["size"])
        return Summary("Shouted.")


def install() -> None:
    """Register these and the engine's test kinds, each once."""
    for cls in (test_kinds.Noop, test_kinds.Sleep, Copy, OtherCopy, Shout):
        try:
            registry.get(cls.kind)
        except UnknownKind:
            registry.register(cls)
