"""`make upgrade`: the clone's code in the place of the installed one, with a way back at every step."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from piherder.house import inside, release, systemd, units
from piherder.house.folder import Refused
from piherder.house.inside import Inside
from piherder.house.install import facts, guarded, put_code, say, start, wait_until_up, write_units
from piherder.house.layout import PARTS, Layout, unit
from piherder.house.packages import patient

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD = "upgrade to "  # begins the reason of a hold that is ours, also after we were killed
LOOK_SECONDS = 3.0
KEPT = 3  # copies of the database
RECORD = "record.json"


@dataclass(frozen=True, slots=True)
class Options:
    """The command line; `wait` in minutes."""

    wait: int = 60
    yes: bool = False
    back: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One upgrade: names of the releases, the copy of the database made between them, the moment in UTC."""

    before: str
    after: str
    copy: str
    at: str


def parse(arguments: list[str]) -> Options:
    """Options of `make upgrade`. Exits with 2 on wrong use."""
    parser = argparse.ArgumentParser(prog="make upgrade", description="Replace the installed PiHerder by this clone's.")
    parser.add_argument("--wait", type=int, default=60, metavar="MINUTES", help="for running jobs (default 60)")
    parser.add_argument(
        "--back", action="store_true", help="back to the release and the database before the last upgrade"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    found = parser.parse_args(arguments)
    if found.wait < 0:
        parser.error("--wait must be 0 or more minutes.")
    return Options(**vars(found))


def installed(layout: Layout) -> Inside:
    """The release that runs. Raises Refused when there is none."""
    if layout.release is None or not layout.settings.is_file():
        raise Refused("Nothing is installed here yet: use sudo make install.")
    return Inside(layout, layout.release)


class Stranded(Refused):
    """Neither the new release nor the old one runs: a person has to go on, and the herd stays on hold till then."""


@contextmanager
def held(found: Inside, reason: str) -> Iterator[None]:
    """Holds the herd; afterwards, also after a failure, the release that is current then ends a hold that is ours."""
    there = found.herd()
    ours = not there["held"] or there["reason"].startswith(HOLD)
    if ours:
        found.manage("hold", "--reason", reason)
        say("The herd is on hold: nothing new starts.")
    else:
        say(f"The herd is on hold already, by {there['held_by']}, and stays so.")
    try:
        yield
    except Stranded:
        raise
    except BaseException:
        with suppress(Refused):  # what went wrong first is what to tell
            let_go(found.layout, ours)
        raise
    let_go(found.layout, ours)


def let_go(layout: Layout, ours: bool) -> None:
    """Ends a hold of ours. Raises Refused."""
    if ours:
        installed(layout).manage("release")
        say("The herd is released.")


def wait_for_jobs(found: Inside, minutes: int) -> None:
    """Returns once no worker has a job in hand; says who is waited for. Raises Refused after `minutes`."""
    told: list[str] = []
    deadline = time.monotonic() + 60 * minutes
    while busy := found.herd()["busy"]:
        if busy != told:
            say(f"Waiting for {', '.join(busy)} …")
            told = busy
        if time.monotonic() > deadline:
            raise Refused(
                f"Still at work after {minutes} min: {', '.join(busy)}. Nothing was changed; try again later."
            )
        time.sleep(LOOK_SECONDS)


def stop(layout: Layout) -> None:
    """Stops what works on the database. Raises Refused."""
    systemd.call("stop", *map(unit, PARTS), *more_workers())


def more_workers() -> list[str]:
    """Further workers of this machine that are loaded."""
    return systemd.instances(units.MORE_WORKERS.partition(".")[0])


def start_all(layout: Layout, more: list[str]) -> None:
    """Starts everything that ran before. Raises Refused."""
    start(layout, inside.read_settings(layout), [])
    if more:
        systemd.call("start", *more)


def our_units(layout: Layout) -> list[Path]:
    """Unit files that we wrote; drop-ins are their owner's."""
    return [path for path in sorted(layout.units.glob("piherder*")) if path.is_file() and not path.is_symlink()]


def note(layout: Layout, record: Record) -> Path:
    """Keeps what the way back needs, where only root writes; returns its folder."""
    folder = layout.upgrades / record.at
    (folder / "units").mkdir(parents=True, exist_ok=True)
    for path in our_units(layout):
        shutil.copyfile(path, folder / "units" / path.name)
    release.note(folder / RECORD, dict(asdict(record)))
    return folder


def records(layout: Layout) -> list[Record]:
    """What is noted of upgrades, oldest first."""
    return [
        Record(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(layout.upgrades.glob(f"*/{RECORD}"))
    ]


def copy_database(found: Inside, moment: str) -> Path:
    """A copy in the data folder, made by the services' own user. Raises Refused.

    The newer release makes it and puts it back: that it can, is shown before anything is changed.
    """
    data = inside.web_options(found.settings, found.layout).data
    folder = data / "upgrades" / moment
    copy = Path(found.house("copy-database", str(folder)))
    say(f"Database copied to {copy}")
    return copy


def now() -> str:
    """This moment as a name."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def restore(layout: Layout, record: Record) -> None:
    """Database, units and code as they were before an upgrade; nothing runs yet afterwards. Raises Refused."""
    before = Inside(layout, layout.code / record.before)
    Inside(layout, layout.code / record.after).house("restore-database", record.copy)
    kept = layout.upgrades / record.at / "units"
    for path in our_units(layout):
        if not (kept / path.name).is_file():
            path.unlink()
    for path in kept.iterdir():
        release.write(layout.units / path.name, path.read_text(encoding="utf-8"), 0o644)
    release.switch(layout, before.release)


def take_over(before: Inside, after: Inside, record: Record, more: list[str]) -> None:
    """Migrates, switches, starts and checks. Raises Refused; whatever happened is undone by `undo`."""
    layout = after.layout
    after.manage("migrate", "--no-input", "--verbosity", "0")
    after.manage("first_start")
    release.switch(layout, after.release)
    write_units(layout, after.settings)
    start_all(layout, more)
    say("Waiting until everything is up …")
    wait_until_up(after)


def undo(layout: Layout, record: Record, more: list[str], why: Exception) -> None:
    """Goes back by itself and says so. Raises Refused, whichever way it ends."""
    say(f"The upgrade failed ({why}) Going back to {record.before} …")
    try:
        stop(layout)
        restore(layout, record)
        start_all(layout, more)
        wait_until_up(Inside(layout, layout.code / record.before))
    except (Refused, OSError) as error:
        lines = "\n".join(by_hand(layout, record))
        raise Stranded(
            f"The way back failed, too ({error}) The copy is whole; these lines go back:\n{lines}"
        ) from error
    raise Refused(f"The upgrade failed, and everything is as it was before, with {record.before}: {why}")


def by_hand(layout: Layout, record: Record) -> list[str]:
    """The lines that go back without us."""
    services = " ".join([*map(unit, PARTS)])
    code = layout.code / record.after
    return [
        f"  sudo systemctl stop {services}",
        f"  cd {code} && sudo runuser -u piherder -- env PIHERDER_ENV_FILE={layout.settings} "
        f"{code}/.venv/bin/python -m piherder.house restore-database {record.copy}",
        f"  sudo ln -sfn {record.before} {layout.current}",
        f"  sudo cp {layout.upgrades / record.at}/units/* {layout.units}/ && sudo systemctl daemon-reload",
        "  sudo systemctl start piherder.target && sudo herder release && sudo herder status",
    ]


def upgrade(layout: Layout, options: Options) -> None:
    """From the installed release to this clone's. Raises Refused with everything as it was."""
    before = installed(layout)
    if release.name() == before.release.name:
        say(f"{before.release.name} is what is installed; there is nothing to upgrade.")
        return
    after = Inside(layout, put_code(layout, options.yes))
    facts(layout, after.settings)  # settings that cannot be used are found before anything stops
    say(f"Upgrading {before.release.name} to {after.release.name}.")
    with patient(), held(before, f"{HOLD}{after.release.name}"):
        wait_for_jobs(before, options.wait)
        record = change(before, after)
    for line in outlook(layout, record):
        say(line)
    tidy(layout)


def change(before: Inside, after: Inside) -> Record:
    """Stops, copies and takes over; either all of it or nothing. Raises Refused."""
    layout, moment, more = before.layout, now(), more_workers()
    try:
        stop(layout)
        record = Record(before.release.name, after.release.name, str(copy_database(after, moment)), moment)
        note(layout, record)
    except (Refused, OSError) as error:
        start_all(layout, more)
        raise Refused(f"Nothing was changed, and {before.release.name} runs on: {error}") from error
    try:
        take_over(before, after, record, more)
    except (Refused, OSError) as error:
        undo(layout, record, more, error)
    return record


def outlook(layout: Layout, record: Record) -> list[str]:
    """The end of an upgrade: what runs, and the way back."""
    return [
        f"Upgraded to {record.after}; all services run it.",
        f"The way back, to {record.before} with the database of {record.at}:",
        "  sudo make upgrade ARGS=--back",
        "or, without this clone:",
        *by_hand(layout, record),
    ]


def back(layout: Layout, options: Options) -> None:
    """To the release and the database before the last upgrade. Raises Refused."""
    found = installed(layout)
    fitting = [each for each in records(layout) if each.after == found.release.name]
    if not fitting or not release.is_complete(layout.code / fitting[-1].before):
        raise Refused(
            f"There is no way back from {found.release.name}: no upgrade to it is noted, or its past is gone."
        )
    record = fitting[-1]
    agree(record, options.yes)
    with patient(), held(found, f"{HOLD}{record.before}"):
        wait_for_jobs(found, options.wait)
        more = more_workers()
        try:
            stop(layout)
            kept = copy_database(found, now())
            restore(layout, record)
        finally:
            start_all(layout, more)
        wait_until_up(Inside(layout, layout.code / record.before))
    say(f"Back at {record.before}. The database that was left lies in {kept}; what it alone knew is not here.")


def agree(record: Record, yes: bool) -> None:
    """Asks. Raises Refused without a yes."""
    words = f"Go back to {record.before}, with the database of {record.at}? What happened since is forgotten. [y/N] "
    if yes or (sys.stdin.isatty() and input(words).strip().lower() in {"y", "yes"}):
        return
    raise Refused('Nothing was changed; to go back without being asked: make upgrade ARGS="--back --yes".')


def tidy(layout: Layout) -> None:
    """Keeps the releases that a way leads back to, and the notes of the last upgrades."""
    kept = records(layout)[-KEPT:]
    release.forget_others(layout, {layout.code / each.before for each in kept})
    for path in layout.upgrades.glob(f"*/{RECORD}"):
        if path.parent.name not in {each.at for each in kept}:
            shutil.rmtree(path.parent)


def main(arguments: list[str]) -> int:
    """Exit code of `make upgrade`: 0 when the new release runs, 1 with one sentence when the old one does."""
    options = parse(arguments)
    layout = Layout()
    return guarded("upgrade", lambda: back(layout, options) if options.back else upgrade(layout, options))
