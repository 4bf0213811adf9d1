"""How the demonstration is shown: plain lines, or on a terminal one calm picture per step."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from jobs.follow import title, waiting_words
from jobs.models import Job, Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import RenderableType

TAIL = 6  # log lines shown below the bars
KEPT = 15  # log lines told when a step fails
PLAIN_WIDTH = 110


class PlainStage:
    """Lines without escape codes, for pipes and logs. It is a `jobs.follow.Screen` too."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.tail: deque[str] = deque(maxlen=KEPT)
        self._told: dict[int, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing moves any more."""

    def say(self, text: str, style: str = "") -> None:
        """A line for the person; lost when the terminal was closed, which must not keep the clean-up from its work."""
        with suppress(OSError):
            self.console.print(Text(text, style), soft_wrap=True)

    def begin(self, place: str, name: str) -> None:
        """A step begins; `place` is "2 of 9"."""
        self.tail.clear()
        self.say(f"[{place}] {name}")

    def note(self, text: str) -> None:
        """Something that happens beside the jobs."""
        self.say(f"      {text}", "dim")

    def line(self, job: Job, text: str) -> None:
        """A line of a job's log, kept for the case that the step fails."""
        self.tail.append(f"{job.where or job.pk} | {text}")

    def state(self, job: Job) -> None:
        """One line when a job's state is another than before."""
        if job.is_active and self._told.get(job.pk) != job.status:
            self._told[job.pk] = job.status
            self.note(f"{title(job)}: {waiting_words(job)}")

    def done(self, name: str, proof: str, seconds: float) -> None:
        """A step was proven."""
        self.say(f"      ok, {seconds:.1f} s: {proof}")

    def failed(self) -> None:
        """A step was not proven: what was heard last."""
        for text in self.tail:
            self.say(f"      {text}")

    def table(self, rows: Sequence[tuple[str, str, float]]) -> None:
        """What happened: step, proof, seconds."""
        grid = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", expand=False)
        grid.add_column("What happened", no_wrap=True)
        grid.add_column("How it was proven", overflow="fold")
        grid.add_column("Time", justify="right", no_wrap=True)
        for name, proof, seconds in rows:
            grid.add_row(Text(name), Text(proof), Text(f"{seconds:.1f} s"))
        self.console.print()
        self.console.print(grid)


class LiveStage(PlainStage):
    """A terminal: finished steps stay as lines; the running one has bars for its jobs and the end of their logs."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.name = self.latest = ""
        self.progress = Progress()
        self._bars: dict[int, TaskID] = {}
        self._live: Live | None = None

    def close(self) -> None:
        """Take the moving picture away."""
        live, self._live = self._live, None
        if live:
            with suppress(OSError):  # the terminal was closed
                live.stop()

    def begin(self, place: str, name: str) -> None:
        """A fresh picture."""
        self.tail.clear()
        self._bars.clear()
        self.name, self.latest, self._head = name, "", Spinner("dots", style="cyan")
        self.progress = Progress(
            TextColumn("   "),
            SpinnerColumn(finished_text=" ", style="dim"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[amount]:>5}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[label]}", style="dim", markup=False),
            console=self.console,
        )
        self._live = Live(get_renderable=self._picture, console=self.console, transient=True, refresh_per_second=10)
        self._live.start()

    def _picture(self) -> RenderableType:
        self._head.update(text=Text(f"{self.name}  ", "bold") + Text(self.latest, "not bold dim"))
        bars: list[RenderableType] = [self.progress] if self._bars else []
        tail = [Text(f"      {text}", "dim", no_wrap=True, overflow="ellipsis") for text in list(self.tail)[-TAIL:]]
        return Group(self._head, *bars, *tail)

    def note(self, text: str) -> None:
        """Beside the step's name, where the next one replaces it."""
        self.latest = text

    def state(self, job: Job) -> None:
        """Move the job's bar; without a total it pulses."""
        bar = self._bars.get(job.pk)
        if bar is None:
            bar = self._bars[job.pk] = self.progress.add_task(f"{job.where:<7}", total=None, amount="", label="")
        percent = 100 if job.status == Status.SUCCEEDED else job.percent
        total = None if percent is None and job.is_active else 100
        amount = "" if percent is None else f"{percent} %"
        self.progress.update(bar, total=total, completed=percent or 0, amount=amount, label=_label(job))

    def done(self, name: str, proof: str, seconds: float) -> None:
        """One line for the step, one for its proof."""
        self.close()
        head = Table.grid(expand=True)
        head.add_column(ratio=1)
        head.add_column(justify="right")
        head.add_row(Text.assemble(("✓ ", "bold green"), (name, "bold")), Text(f"{seconds:.1f} s", "dim"))
        self.console.print(head, Padding(Text(proof, "dim"), (0, 0, 0, 3)))

    def failed(self) -> None:
        """The cross, and what was heard last."""
        self.close()
        self.console.print(Text.assemble(("✗ ", "bold red"), (self.name, "bold")))
        super().failed()


def _label(job: Job) -> str:
    """What a bar says: the speed of a copy, else its step or what it waits for."""
    if not job.is_active:
        return job.state_words.lower()
    if job.status != Status.RUNNING:
        return waiting_words(job)
    return job.progress_label.rpartition(": ")[2] or job.step.partition(" ")[0]


def stage() -> PlainStage:
    """The one that fits the standard output."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveStage(console)
    plain = {"color_system": None, "force_terminal": False, "width": PLAIN_WIDTH}
    return PlainStage(Console(highlight=False, markup=False, emoji=False, **plain))  # type: ignore[arg-type]  # mixed
