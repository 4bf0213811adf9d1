"""`make uninstall`: takes services and program away; data, backups, settings and user stay unless told otherwise."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from piherder.house import accounts, choice, inside, systemd
from piherder.house.folder import Refused
from piherder.house.install import guarded, say
from piherder.house.layout import TARGET, USER, Layout
from piherder.house.upgrade import more_workers, our_units

WORD = "delete everything"
DROP = "DROP DATABASE IF EXISTS piherder;\nDROP ROLE IF EXISTS piherder;\n"


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    purge: bool = False
    agreed: bool = False


def parse(arguments: list[str]) -> Options:
    """Options of `make uninstall`. Exits with 2 on wrong use."""
    parser = argparse.ArgumentParser(prog="make uninstall", description="Remove PiHerder's services and program.")
    parser.add_argument("--purge", action="store_true", help="also data, first backup root, settings and user")
    parser.add_argument("--yes-delete-everything", dest="agreed", action="store_true", help="with --purge: do not ask")
    return Options(**vars(parser.parse_args(arguments)))


def doomed(layout: Layout, settings: dict[str, str]) -> list[Path]:
    """What --purge removes beside the program, as far as it is there."""
    data = Path(settings.get("PIHERDER_DATA", str(layout.data)))
    backups = Path(settings.get("PIHERDER_BACKUPS", str(layout.backups)))
    return [path for path in (data, backups, layout.settings.parent) if path.exists()]


def agree(paths: list[Path], options: Options) -> None:
    """Has the word typed. Raises Refused without it."""
    if options.agreed:
        return
    shown = ", ".join(map(str, paths)) or "nothing but the user"
    words = f"This deletes {shown}, with every backup in them. Type “{WORD}” to go on: "
    if not (sys.stdin.isatty() and input(words).strip() == WORD):
        raise Refused(
            'Nothing was removed; without being asked: make uninstall ARGS="--purge --yes-delete-everything".'
        )


def remove_units(layout: Layout) -> None:
    """Stops and removes the services. Raises Refused."""
    ours = our_units(layout)
    if ours:
        more = more_workers()
        systemd.call("stop", TARGET, *more, *[each.name for each in ours if "@" not in each.name])
        systemd.call("disable", "--quiet", *more, *[each.name for each in ours if "@" not in each.name])
    for path in ours:
        path.unlink()
    systemd.call("daemon-reload")


def remove_program(layout: Layout) -> None:
    """Removes code and command."""
    if layout.link.is_symlink() and layout.link.readlink() == layout.current / "herder":
        layout.link.unlink()
    shutil.rmtree(layout.code, ignore_errors=True)


def purge(layout: Layout, settings: dict[str, str], paths: list[Path]) -> None:
    """Removes data, backups, settings, our own database and the user. Raises Refused."""
    if choice.database_of(settings) == choice.POSTGRESQL:
        command = [*inside.become("postgres"), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]
        done = subprocess.run(command, input=DROP, capture_output=True, text=True, cwd="/")
        if done.returncode:
            raise Refused(f"The database could not be removed: {inside.last_line(done.stderr)}")
    for path in paths:
        shutil.rmtree(path)
    if accounts.find():
        subprocess.run(["userdel", USER], capture_output=True)


def uninstall(layout: Layout, options: Options) -> None:
    """Removes what `options` say. Raises Refused."""
    settings = inside.read_settings(layout)
    paths = doomed(layout, settings)
    if not our_units(layout) and not layout.code.exists() and not (options.purge and paths):
        kept = f"; {', '.join(map(str, paths))} are there" if paths else ""
        say(f"No PiHerder is installed here{kept}.")
        return
    if options.purge:
        agree(paths, options)
    remove_units(layout)
    remove_program(layout)
    if options.purge:
        purge(layout, settings, paths)
        say("PiHerder is gone, with its data, its first backup root, its settings and its user.")
        return
    say("Services and program are removed; `make install` finds the rest and goes on with it:")
    for path in paths:
        say(f"  {path}")
    say(f'The user {USER} stays, too, because files belong to it. To delete all of it: make uninstall ARGS="--purge"')


def main(arguments: list[str]) -> int:
    """Exit code of `make uninstall`: 0 when it is gone, 1 with one sentence on stderr."""
    options = parse(arguments)
    return guarded("uninstall", lambda: uninstall(Layout(), options))
