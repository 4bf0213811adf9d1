"""`make run`: the embedded installation on this machine, from an empty data folder to a printed address."""

from __future__ import annotations

import argparse
import os
import pwd
import secrets
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from piherder import env
from piherder.house import folder, ports, stack
from piherder.house.servers import PrivateRedis
from piherder.house.supervisor import NotReady

if TYPE_CHECKING:
    from piherder.house.supervisor import Supervisor

ADMIN = "admin"


def parse(arguments: list[str]) -> stack.Options:
    """Command line of `make run`. Exits with 2 on wrong use."""
    parser = argparse.ArgumentParser(prog="make run", description="Start PiHerder on this machine.")
    parser.add_argument("--bind", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--yes", action="store_true", help="do not ask during the set-up")
    found = parser.parse_args(arguments)
    if not 0 < found.port < 65536:
        parser.error(f"--port must lie between 1 and 65535, not {found.port}.")
    return stack.Options(env.data_folder(), found.bind, found.port)


def manage(environment: dict[str, str], *command: str, text: str = "", notes: bool = False) -> str:
    """Output of one command of ours with `text` on its standard input, with `notes` also what it says on stderr.

    Raises Refused with its last line.
    """
    done = subprocess.run(
        [sys.executable, *command], input=text, env=environment, cwd=folder.CLONE, capture_output=True, text=True
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise folder.Refused(f"{' '.join(command)} failed: {last}")
    return (done.stdout + (done.stderr if notes else "")).strip()


def prepare_database(environment: dict[str, str]) -> str:
    """Brings the database up to date; returns the new administrator's password, "" when there was one already."""
    manage(environment, "manage.py", "migrate", "--no-input", "--verbosity", "0")
    password = secrets.token_urlsafe(12)
    made = manage(environment, "-m", "piherder.house", "first-admin", text=password)
    return password if made == "created" else ""


def tunnel(port: int) -> str:
    """The ready command that brings the pages of this machine to another one's browser."""
    user = env.text("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    # SSH_CONNECTION: client address, client port, server address, server port (ssh(1))
    parts = env.text("SSH_CONNECTION").split()
    host = parts[2] if len(parts) == 4 else socket.gethostname()
    return f"ssh -L {port}:127.0.0.1:{port} {user}@{host}"


def first_login(password: str) -> list[str]:
    """The line about a new administrator; shown at once, because nobody can ask for it again when the rest fails."""
    return [f"User {ADMIN}, password {password} (shown once, never again)"] if password else []


def farewell(options: stack.Options) -> list[str]:
    """The lines printed when everything is up; the address, and on loopback the way in from elsewhere, come last."""
    lines = [f"PiHerder is up at http://{options.socket_address}/ (Ctrl-C stops it)"]
    if options.is_loopback:
        lines += ["From another machine, open a tunnel and then the same address there:", f"  {tunnel(options.port)}"]
    else:
        lines += [
            "Others can reach the pages, and nothing encrypts them: use a network you trust, or a proxy with TLS."
        ]
    return lines


def passed_over() -> list[str]:
    """A line per address of a server that the caller has set: `./herder` in the same shell speaks to that one."""
    return [
        f"{name} is set and passed over: make run has its own server. Unset it, because ./herder obeys it."
        for name in ("DATABASE_URL", "REDIS_URL")
        if env.text(name)
    ]


def say(text: str) -> None:
    """One line for the person, at once."""
    print(text, flush=True)


def on_signals(supervisor: Supervisor) -> None:
    """SIGINT, SIGTERM and SIGHUP end the stack in order; a second one cuts the grace short."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, supervisor.stop_soon)


def serve(options: stack.Options, redis: PrivateRedis) -> None:
    """Starts everything and stays until a signal comes. Raises Refused or NotReady in words."""
    for line in passed_over():
        say(line)
    environment = stack.environment(options, redis.url)
    for line in first_login(prepare_database(environment)):
        say(line)
    for line in manage(environment, "manage.py", "first_start", notes=True).splitlines():
        say(line)
    supervisor = stack.supervisor(options, redis, say)
    on_signals(supervisor)
    try:
        supervisor.start()
        supervisor.announce(f"http://{options.socket_address}/")
        for line in [] if supervisor.is_stopping else farewell(options):
            say(line)
        supervisor.run()
    finally:
        supervisor.stop()
        redis.close()


def main(arguments: list[str]) -> int:
    """Exit code of `make run`: 0 after a stop, 130 when stopped before it was up, 1 with one sentence on stderr."""
    os.umask(0o077)
    options = parse(arguments)
    try:
        options = stack.Options(folder.prepare(options.data), options.bind, options.port)
        with folder.only_one(options.data):
            ports.check_free(options.bind, options.port)
            serve(options, PrivateRedis(options.data / "redis"))
    except (folder.Refused, NotReady, env.BadEnvironment) as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
