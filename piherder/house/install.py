"""`make install`: PiHerder as services of this machine, from nothing or from whatever part is there already."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from piherder import env, envfile
from piherder.house import accounts, choice, inside, machine, packages, ports, processes, release, run, systemd, units
from piherder.house.folder import Refused, is_running
from piherder.house.form import HIDDEN
from piherder.house.inside import Inside
from piherder.house.layout import PARTS, TARGET, USER, Layout, unit
from piherder.house.stack import DRAIN_MARGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UP_SECONDS = 150.0
REDIS_SERVER = packages.Need("redis-server", "redis-server", services=("redis-server", "redis"))
MAKE_DATABASE = """\
SELECT 'CREATE ROLE piherder LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'piherder')\\gexec
SELECT 'CREATE DATABASE piherder OWNER piherder ENCODING ''UTF8'' TEMPLATE template0'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'piherder')\\gexec
"""


def say(text: str) -> None:
    """One line for the person, at once; a terminal that has gone stops nothing that was begun."""
    with suppress(OSError):
        print(text, flush=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything decided before anything is changed."""

    layout: Layout
    wish: choice.Wish
    before: dict[str, str]
    changes: dict[str, str]

    @property
    def settings(self) -> dict[str, str]:
        """The settings as they will be."""
        return {**self.before, **self.changes}

    @property
    def data(self) -> Path:
        """The data folder."""
        return Path(self.settings["PIHERDER_DATA"])

    @property
    def backups(self) -> Path:
        """The first backup root."""
        return Path(self.settings["PIHERDER_BACKUPS"])


def plan(wish: choice.Wish, layout: Layout) -> Plan:
    """Decides, and looks at everything that could stand in the way. Raises Refused; changes nothing."""
    before = inside.read_settings(layout)
    found = Plan(layout, wish, before, choice.decide(wish, before, layout))
    there, here = layout.release, release.name()
    if there and there.name != here:
        raise Refused(f"{there.name} is installed, and this is {here}: use sudo make upgrade.")
    account = accounts.find()
    for path in (found.data, found.backups):
        if reason := accounts.refusal(path, account):
            raise Refused(reason)
    if is_running(found.data):
        raise Refused(f"PiHerder runs on {found.data} by `make run`: stop it first.")
    check_python(Path(sys.executable).resolve())
    check_port(found)
    return found


def check_python(python: Path) -> None:
    """Raises Refused for a Python that the services could not reach."""
    if any(Path(each) in python.parents for each in HIDDEN):
        raise Refused(f"{python} lies in a home folder, which services cannot see: add PYTHON=/usr/bin/python3.")


def check_port(found: Plan) -> None:
    """Raises Refused when another program holds the address. Our own pages may be up there."""
    options = inside.web_options(found.settings, found.layout)
    same = inside.web_options(found.before, found.layout).socket_address == options.socket_address
    if not (same and any(each.pid for each in systemd.show([unit("web")]))):
        ports.check_free(options.bind, options.port)


def describe(found: Plan, account: accounts.Account | None) -> list[str]:
    """What is there already, one line a part."""
    there = [
        f"the user {USER}" if account else "",
        f"settings in {found.layout.settings}" if found.before else "",
        f"data in {found.data}" if accounts.content(found.data) else "",
        f"backups in {found.backups}" if accounts.content(found.backups) else "",
        f"the release {found.layout.release.name}" if found.layout.release else "",
    ]
    kept = [each for each in there if each]
    lines = [f"Found and kept: {', '.join(kept)}." if kept else "Nothing of PiHerder is here yet."]
    if found.before and found.changes:
        lines.append(f"Settings that change: {', '.join(found.changes)}.")
    return lines


def put_code(layout: Layout, yes: bool) -> Path:
    """This clone's code as a release that can run. Raises Refused."""
    found = release.put(layout, USER)
    script = [sys.executable, str(found / "piherder/house/prepare.py"), "--for", "install", *(["--yes"] if yes else [])]
    if subprocess.run(script, cwd=found).returncode:
        raise Refused(f"The release {found.name} could not be set up, and nothing of what runs was changed.")
    # The services may not write there, and would translate each module anew at every start.
    python, parts = str(found / ".venv/bin/python"), ("piherder", "stacks", "hosts", "jobs")
    subprocess.run([python, "-m", "compileall", "-q", *parts], cwd=found, capture_output=True)
    release.finish(found)
    return found


def bring_servers(wish: choice.Wish, settings: dict[str, str]) -> None:
    """PostgreSQL and Redis of the distribution where they are wanted. Raises Refused."""
    lacks = [n.package for n in packages.missing([packages.POSTGRESQL], lambda _n: False, Path("/"), True)]
    if choice.database_of(settings) == choice.POSTGRESQL:
        if lacks:
            say("Installing PostgreSQL …")
            packages.install(lacks, [])
        systemd.call("enable", "--now", "postgresql.service")
        make_database()
    if wish.redis == choice.REDIS_SERVER and not packages.find_command("redis-server"):
        say("Installing redis-server …")
        packages.install([REDIS_SERVER.package], list(REDIS_SERVER.services))
        systemd.call("disable", "redis-server.service")  # ours is an instance of its own, see piherder-redis.service


def make_database() -> None:
    """Role and database, open to our user over the Unix socket alone (peer). Raises Refused."""
    command = [*inside.become("postgres"), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]
    done = subprocess.run(command, input=MAKE_DATABASE, capture_output=True, text=True, cwd="/")
    if done.returncode:
        raise Refused(f"The database could not be made: {inside.last_line(done.stderr)}")


def write_settings(found: Plan, account: accounts.Account) -> None:
    """The settings file, its reader and nobody else beside root."""
    path = found.layout.settings
    path.parent.mkdir(mode=0o755, exist_ok=True)
    text = path.read_text(encoding="utf-8") if path.is_file() else choice.HEAD
    if found.changes or not path.is_file():
        text = envfile.with_values(text, found.changes)
    release.write(path, text, 0o640, (0, account.gid))


def facts(layout: Layout, settings: dict[str, str]) -> units.Facts:
    """What the units depend on."""
    grace = settings.get("PIHERDER_DRAIN_GRACE_SEC", "20")
    return units.Facts(
        layout=layout,
        data=Path(settings.get("PIHERDER_DATA", str(layout.data))),
        port=inside.web_options(settings, layout).port,
        own_redis=choice.own_redis(settings, layout),
        own_postgresql=choice.database_of(settings) == choice.POSTGRESQL,
        stop_seconds=(float(grace) if grace.isdecimal() else 20.0) + DRAIN_MARGIN,
    )


def write_units(layout: Layout, settings: dict[str, str]) -> list[str]:
    """Writes the units that changed, takes away those that are no longer wanted; returns the names of both."""
    wanted, changed = units.render(facts(layout, settings)), []
    for name, text in wanted.items():
        path = layout.units / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            release.write(path, text, 0o644)
            changed.append(name)
    if unit("redis") not in wanted and (layout.units / unit("redis")).exists():
        systemd.call("disable", "--now", unit("redis"))
        (layout.units / unit("redis")).unlink()
        changed.append(unit("redis"))
    return changed


def link_command(layout: Layout) -> None:
    """The `herder` command for everybody's PATH; a file of somebody else there is left alone."""
    goal = layout.current / "herder"
    if layout.link.is_symlink() and Path(os.readlink(layout.link)) == goal:
        return
    if layout.link.exists() or layout.link.is_symlink():
        say(f"{layout.link} is not ours and stays; the command is {goal}.")
        return
    layout.link.parent.mkdir(parents=True, exist_ok=True)
    layout.link.symlink_to(goal)


def fill(found: Inside) -> str:
    """Brings the database up to date; returns the first login's password, "" when there is one. Raises Refused."""
    found.manage("migrate", "--no-input", "--verbosity", "0")
    password = secrets.token_urlsafe(12)
    for line in found.manage("first_start").splitlines():
        say(line)
    made = found.house("first-admin", text=password)  # last: what fails after it would take the password along
    return password if made == "created" else ""


def start(layout: Layout, settings: dict[str, str], changed: list[str]) -> None:
    """Enables and starts everything; what ran already takes over what `changed`. Raises Refused."""
    services = units.services(own_redis=choice.own_redis(settings, layout))
    systemd.call("daemon-reload")
    systemd.call("enable", "--quiet", TARGET, *services)
    running = [each.name for each in systemd.show(services) if each.pid and changed]
    if running:
        systemd.call("restart", *[each for each in running if each != unit("worker")])
        restart_worker(Inside(layout, layout.current.resolve()))
    systemd.call("start", TARGET, *services)


def restart_worker(found: Inside) -> None:
    """A worker with a job in hand is left to its owner: a restart would end the job."""
    if busy := found.herd()["busy"]:
        say(f"The worker runs {', '.join(busy)}; restart it afterwards: sudo systemctl restart {unit('worker')}")
    else:
        systemd.call("restart", unit("worker"))


def wait_until_up(found: Inside, seconds: float = UP_SECONDS) -> None:
    """Returns once everything works. Raises Refused naming what does not."""
    lacking = ["the pages"]
    options, own = inside.web_options(found.settings, found.layout), choice.own_redis(found.settings, found.layout)

    def up() -> bool:
        strays = inside.strays(found.release, own)
        lacking[:] = strays or ([] if inside.pages_answer(options) else ["the pages"]) or inside.missing(found.status())
        return not lacking

    if not processes.wait_until(up, seconds):
        raise Refused(f"Not up after {seconds:.0f} s: {', '.join(lacking)}; see journalctl -u 'piherder-*' -n 50.")


@contextmanager
def shown_anyway(password: str) -> Iterator[None]:
    """Shows the first login also when the rest fails: nobody can ask for it again."""
    try:
        yield
    except BaseException:
        for line in run.first_login(password):
            say(line)
        raise


def farewell(found: Inside, password: str) -> list[str]:
    """What to know; the address, and on loopback the way in from elsewhere, come last."""
    options = inside.web_options(found.settings, found.layout)
    lines = [
        f"Services: {', '.join((TARGET, *map(unit, PARTS)))}; they start at boot.",
        f"Data: {options.data}. Keep a copy of {options.data / 'master.key'} elsewhere: without it nothing logs in.",
        f"Backups run as {USER}, who cannot own other people's files: rsync --fake-super keeps owners in attributes.",
        f"Settings: {found.layout.settings}. The command is: sudo herder status",
    ]
    lines += run.first_login(password)
    lines += [f"PiHerder is up at http://{options.socket_address}/"]
    if options.is_loopback:
        return [
            *lines,
            "From another machine, open a tunnel and then the same address there:",
            f"  {run.tunnel(options.port)}",
        ]
    return [
        *lines,
        "Others can reach the pages, and nothing encrypts them: use a network you trust, or a proxy with TLS.",
    ]


def carry_out(found: Plan) -> None:
    """Every step, each harmless to repeat. Raises Refused."""
    layout = found.layout
    for line in describe(found, accounts.find()):
        say(line)
    code = put_code(layout, found.wish.yes)
    account = accounts.make(found.data)
    accounts.own_folder(found.data, account)
    accounts.own_folder(found.backups, account)
    write_settings(found, account)
    bring_servers(found.wish, found.settings)
    password = fill(Inside(layout, code))
    with shown_anyway(password):
        release.switch(layout, code)
        changed = write_units(layout, found.settings) + list(found.changes)
        link_command(layout)
        start(layout, found.settings, changed)
        say("Waiting until everything is up …")
        wait_until_up(Inside(layout, code))
    for line in farewell(Inside(layout, code), password):
        say(line)


def guarded(target: str, work: Callable[[], None]) -> int:
    """Runs `work` where this machine admits `target`; 1 with one sentence on stderr when it cannot be done."""
    os.umask(0o022)
    try:
        if reason := machine.refusal(machine.look(), target):
            raise Refused(reason)
        work()
    except (Refused, packages.Refused, env.BadEnvironment) as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or 'This machine'} does not let itself be changed: {error.strerror}.", file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str]) -> int:
    """Exit code of `make install`: 0 when everything is up, 1 with one sentence on stderr."""
    wish = choice.parse(arguments)
    return guarded("install", lambda: carry_out(plan(wish, Layout())))
