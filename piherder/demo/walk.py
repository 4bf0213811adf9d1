"""The walk through the steps, from an empty folder to a table, and the clean end whatever happens.

Started by `piherder.demo.__main__`: FOLDER PORT [stay] [keep].
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from types import FrameType

    from piherder.demo.stage import PlainStage
    from piherder.demo.story import Step, Story

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Row = tuple[str, str, float]


class StepFailed(Exception):
    """A step was not proven; the text names it and says why, in one line."""


def walk(story: Story, stage: PlainStage, steps: tuple[Step, ...]) -> list[Row]:
    """Every step in turn. Raises StepFailed at the first that is not proven."""
    rows = []
    for number, (name, step) in enumerate(steps, 1):
        stage.begin(f"{number} of {len(steps)}", name)
        began = time.monotonic()
        try:
            proof = step(story)
        except Exception as error:
            stage.failed()
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StepFailed(f"the step “{name}” failed: {reason}") from error
        rows.append((name, proof, time.monotonic() - began))
        stage.done(*rows[-1])
    return rows


def interrupted(_number: int, _frame: FrameType | None) -> None:
    """SIGINT, SIGTERM and SIGHUP end the walk wherever it is."""
    raise KeyboardInterrupt


def on_signals(action: signal.Handlers | object) -> None:
    """What the three signals do from now on."""
    for number in SIGNALS:
        signal.signal(number, action)  # type: ignore[arg-type]  # any handler


def tell_end(story: Story, stage: PlainStage, rows: list[Row]) -> None:
    """The table, and where the generations are."""
    from hosts.words import count, size
    from piherder.demo.story import generations

    stage.table(rows)
    for name, found in generations(story):
        stage.say("")
        stage.say(f"Generations of {name}", "bold")
        stage.say(f"  in {found[-1].path.parent}", "dim")
        for one in found:
            stage.say(f"  {one.folder}  {count(one.files, 'file')}, {size(one.bytes)}, {one.changed_files:,} changed")


def welcome(story: Story, stage: PlainStage) -> None:
    """What this is, and where."""
    stage.say("PiHerder demonstration: three throw-away hosts, real SSH and rsync, all on this machine.", "bold")
    stage.say(f"Everything lies in {story.folder}; nothing else is touched.", "dim")
    stage.say("")


def pages(story: Story, stage: PlainStage) -> None:
    """How to look at the pages."""
    from piherder.house.run import ADMIN, tunnel

    stage.say("")
    stage.say(f"The pages are at {story.house.address} (user {ADMIN}, password {story.house.password})", "bold")
    stage.say(f"From another machine, first: {tunnel(story.house.options.port)}")
    stage.say("Ctrl-C ends everything.")


def perform(story: Story, stage: PlainStage, stay: bool) -> int:
    """The steps, the table and, where wished, the pages until a signal comes. 0, or 1 when a step was not proven."""
    from piherder.demo.story import STEPS

    code = 0
    welcome(story, stage)
    try:
        tell_end(story, stage, walk(story, stage, STEPS))
    except StepFailed as failed:
        print(f"demo: {failed}", file=sys.stderr, flush=True)
        code = 1
    if stay and story.house.password:
        pages(story, stage)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            stage.say("")
    return code


def clean_up(story: Story, stage: PlainStage, keep: bool) -> int:
    """End everything by its process id and remove the folder; returns how many processes had to be killed."""
    from piherder.demo import place

    on_signals(story.house.supervisor.stop_soon)  # a second Ctrl-C hurries the end, and breaks nothing off
    stage.close()
    stage.say("Stopping …", "dim")
    story.watch.stop()
    story.house.stop()
    for machine in story.machines:
        machine.sshd.stop()
    stubborn = place.end_left(story.folder)
    if not keep:
        place.remove(story.folder)
    where = f"the folder is kept: {story.folder}" if keep else "the folder is gone"
    if not stubborn:
        stage.say(f"Every process has ended, {where}.", "dim")
    return len(stubborn)


def build(folder: Path, port: int, stage: PlainStage, *, inviting: bool) -> Story:
    """Everything that takes part; nothing is started yet."""
    from piherder.demo.house import House
    from piherder.demo.machines import NAMES, Machine
    from piherder.demo.place import HERDER
    from piherder.demo.story import Story
    from piherder.demo.watch import Watch
    from piherder.demo.work import Work
    from piherder.house import stack
    from piherder.house.servers import PrivateRedis

    data = folder / HERDER
    house = House(stack.Options(data, port=port), PrivateRedis(data / "redis"), stage.note)
    machines = [Machine(name, folder / name, seed) for seed, name in enumerate(NAMES, 1)]
    watch = Watch({machine.name: machine.sshd.runs for machine in machines})
    return Story(house, machines, watch, Work(stage), folder, inviting)


def main(arguments: list[str]) -> int:
    """Exit code: 0 when every step was proven, 1 when one was not, 130 when stopped before the end."""
    folder, keep = Path(arguments[0]), "keep" in arguments[2:]
    os.umask(0o077)
    on_signals(interrupted)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # blocked by who made the folder, so that none is left
        django.setup()
        return live(folder, int(arguments[1]), stay="stay" in arguments[2:], keep=keep)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if folder.exists() and not keep:
            shutil.rmtree(folder, ignore_errors=True)


def live(folder: Path, port: int, *, stay: bool, keep: bool) -> int:
    """Everything between an empty folder and no folder. Raises KeyboardInterrupt after the clean end."""
    from piherder.demo.stage import stage as fitting
    from piherder.house.folder import only_one

    stage = fitting()
    story = build(folder, port, stage, inviting=stay)
    with only_one(story.house.options.data):
        try:
            story.house.start()
            code = perform(story, stage, stay)
        finally:
            stubborn = clean_up(story, stage, keep)
    if stubborn:
        print(f"demo: the step “clean end” failed: {stubborn} processes had to be killed", file=sys.stderr)
    return code or int(bool(stubborn))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
