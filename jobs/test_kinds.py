"""`noop` and `sleep`: kinds for tests and benchmarks, installed only where PIHERDER_TEST_KINDS asks."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from django import forms

from jobs.registry import Family, Run, Summary, register

if TYPE_CHECKING:
    from jobs.registry import Params


class SleepForm(forms.Form):
    """Parameters of `sleep`."""

    seconds = forms.FloatField(min_value=0, max_value=86_400, initial=1)
    counter = forms.CharField(required=False, help_text="A file that gets one line per step.")
    lines = forms.IntegerField(required=False, min_value=0, max_value=1_000_000)
    stubborn = forms.BooleanField(required=False, help_text="Ignore a stop for as long as it sleeps.")
    tag = forms.CharField(required=False, help_text="Tells two requests apart.")
    limit = forms.FloatField(required=False, min_value=0.1)


@register
class Noop(Family):
    """Does nothing: the cost of the engine alone."""

    kind, label = "noop", "Do nothing"
    needs_host = False
    exclusive = False

    def run(self, run: Run) -> Summary:
        """Return at once."""
        return Summary("Nothing was done.")


@register
class Sleep(Family):
    """Sleeps and counts its steps in a file, so that a double run can be seen."""

    kind, label = "sleep", "Sleep"
    needs_host = False
    exclusive = False
    form_class = SleepForm

    def lanes_of(self, host_id: int | None, params: Params) -> tuple[str, ...]:
        """One sleeper per tag."""
        return (f"sleep:{params['tag']}",) if params.get("tag") else ()

    def limit_of(self, host_id: int | None, params: Params) -> timedelta:
        """The request's own limit."""
        return timedelta(seconds=params["limit"]) if params.get("limit") else self.time_limit

    def run(self, run: Run) -> Summary:
        """Sleep in steps of 0.1 s; one line of the counter file per step: job, attempt, step."""
        steps = max(1, int(run.params["seconds"] * 10))
        for number in range(run.params.get("lines") or 0):
            run.log(f"line {number}")
        for step in range(steps):
            self._count(run, step)
            run.progress(step, steps, "steps")
            time.sleep(0.1) if run.params.get("stubborn") else run.pause(0.1)
        return Summary(f"Slept {steps / 10:.1f} s.", {"steps": steps})

    def _count(self, run: Run, step: int) -> None:
        if run.params.get("counter"):
            with Path(run.params["counter"]).open("a", encoding="ascii") as handle:
                handle.write(f"{run.job_id} {run.attempt} {step}\n")
