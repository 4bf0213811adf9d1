"""Commands of one installed release, run as its own user with its own settings: never as root."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from piherder import envfile
from piherder.house import systemd, units
from piherder.house.folder import Refused
from piherder.house.layout import USER, Layout, unit
from piherder.house.stack import Options

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Inside:
    """A release of `layout`, which need not be the current one."""

    layout: Layout
    release: Path
    user: str = USER

    @property
    def settings(self) -> dict[str, str]:
        """The settings file."""
        return read_settings(self.layout)

    def run(self, *words: str, text: str = "", may_fail: bool = False) -> str:
        """Output of `python WORDS` of this release. Raises Refused with the last line that it said."""
        argv = [*become(self.user), str(self.release / ".venv/bin/python"), *words]
        environment = {
            "PATH": PATH,
            "LANG": "C.UTF-8",
            "HOME": home(self.user),
            "PIHERDER_ENV_FILE": str(self.layout.settings),
        }
        done = subprocess.run(argv, input=text, env=environment, cwd=self.release, capture_output=True, text=True)
        if done.returncode and not may_fail:
            raise Refused(f"{' '.join(words[:3])} failed: {last_line(done.stderr or done.stdout)}")
        return done.stdout.strip()

    def manage(self, *words: str, may_fail: bool = False) -> str:
        """Output of a management command."""
        return self.run("manage.py", *words, may_fail=may_fail)

    def house(self, *words: str, text: str = "") -> str:
        """Output of a part of the house."""
        return self.run("-m", "piherder.house", *words, text=text)

    def herd(self) -> dict[str, Any]:
        """What `herd.report` says."""
        found: dict[str, Any] = json.loads(self.house("herd"))
        return found

    def status(self) -> dict[str, Any]:
        """What `status --json` says; {} when it could not look."""
        text = self.manage("status", "--json", may_fail=True)
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            return {}
        return found


def become(user: str) -> list[str]:
    """The words that run a program as `user`; none when we are that user."""
    return [] if pwd.getpwuid(os.geteuid()).pw_name == user else ["runuser", "-u", user, "--"]


def home(user: str) -> str:
    """The home folder of `user`; "/" when there is no such user."""
    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        return "/"


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def read_settings(layout: Layout) -> dict[str, str]:
    """The settings file; {} when there is none."""
    return envfile.parse(layout.settings.read_text(encoding="utf-8")) if layout.settings.is_file() else {}


def web_options(settings: dict[str, str], layout: Layout) -> Options:
    """Where the pages are served. Raises Refused for a port that is none."""
    port = settings.get("PIHERDER_PORT", "8000")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise Refused(f"PIHERDER_PORT in {layout.settings} must lie between 1 and 65535, not {port!r}.")
    data = Path(settings.get("PIHERDER_DATA", str(layout.data)))
    return Options(data, settings.get("PIHERDER_BIND", "127.0.0.1"), int(port))


def missing(report: dict[str, Any]) -> list[str]:
    """What of the engine is not up yet, from `status --json`; what else needs attention is another matter."""
    lacking = []
    if not report.get("database", {}).get("reachable"):
        lacking.append("the database")
    if not report.get("redis", {}).get("reachable"):
        lacking.append("Redis")
    if not any(not node["silent_for"] and not node["draining"] for node in report.get("nodes", [])):
        lacking.append("a worker")
    beat = report.get("beat") or {}
    if not beat.get("holder") or beat.get("silent_for"):
        lacking.append("beat")
    return lacking


def pages_answer(options: Options) -> bool:
    """True when the login page is served."""
    host = f"[{options.own_address}]" if ":" in options.own_address else options.own_address
    try:
        with urllib.request.urlopen(f"http://{host}:{options.port}/login/", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def strays(release: Path, own_redis: bool) -> list[str]:
    """Services whose process does not run from `release`, by the folder it stands in (proc_pid_cwd(5))."""
    found = systemd.show(units.services(own_redis=own_redis))
    return [each.name for each in found if each.name != unit("redis") and not stands_in(each.pid, release)]


def stands_in(pid: int, release: Path) -> bool:
    """True when the process works in that folder."""
    try:
        return bool(pid) and Path(os.readlink(f"/proc/{pid}/cwd")) == release.resolve()
    except OSError:
        return False
