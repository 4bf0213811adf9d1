"""Facts of 20 loopback hosts by jobs of the engine with 2 slots, beside `ansible -m setup -f 20`."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from bench.asking import ask, ended
from bench.figures import Aim, Kind, Result, median
from bench.machines import Machines, machines
from bench.programs import PATIENCE, migrate, worker
from piherder import env
from piherder.house.stack import program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

AIM = Aim(Kind.RATIO, 0.40)
HOSTS = 20


def engine(there: Machines) -> float:
    """Seconds from the first request to the last job's end."""
    began = time.monotonic()
    ended([ask("host_facts", host.pk) for host in there.hosts])
    return time.monotonic() - began


def inventory(folder: Path, there: Machines) -> Path:
    """Ansible's list of the same hosts with the same key."""
    key = folder / "ansible.key"
    key.write_text(there.key.private)
    key.chmod(0o600)
    lines = [
        f"{server.name} ansible_host=127.0.0.1 ansible_port={server.port} ansible_user={server.user} "
        f"ansible_ssh_private_key_file={key} ansible_python_interpreter=/usr/bin/python3"
        for server in there.servers
    ]
    path = folder / "inventory"
    path.write_text("\n".join(lines) + "\n")
    return path


def settings(folder: Path) -> dict[str, str]:
    """Ansible's own defaults but for its folders and the host keys; a connection is kept 5 s, so each run logs in."""
    home = folder / "ansible"
    home.mkdir(exist_ok=True)
    (home / "ansible.cfg").touch()  # or it would read the one of whoever runs this
    ssh = f"-o ControlMaster=auto -o ControlPersist=5s -o UserKnownHostsFile={home / 'known_hosts'}"
    return env.child_environment(
        ANSIBLE_CONFIG=str(home / "ansible.cfg"),
        ANSIBLE_HOME=str(home),
        ANSIBLE_LOCAL_TEMP=str(home / "local"),
        ANSIBLE_REMOTE_TMP=str(home / "remote"),
        ANSIBLE_SSH_CONTROL_PATH_DIR=str(home / "cp"),
        ANSIBLE_HOST_KEY_CHECKING="False",
        ANSIBLE_SSH_ARGS=ssh,
        LC_ALL="C.UTF-8",
    )


def ansible(listed: Path, environment: Mapping[str, str]) -> float:
    """Seconds of one run that reads all hosts. Raises CalledProcessError when one could not be read."""
    command = [program("ansible"), "all", "-i", str(listed), "-m", "setup", "-f", str(HOSTS)]
    began = time.monotonic()
    subprocess.run(command, env=dict(environment), stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE)
    return time.monotonic() - began


def run(folder: Path, quick: bool) -> list[Result]:
    """One line."""
    rounds = 1 if quick else 5
    migrate()
    ours, theirs = [], []
    with worker(folder), machines(folder, HOSTS) as there:
        listed, environment = inventory(folder, there), settings(folder)
        engine(there)
        for _ in range(rounds):
            ours.append(engine(there))
            theirs.append(ansible(listed, environment))
            time.sleep(6)  # its kept connections end
    note = (
        "wall time for all; ansible sends a Python module to each host and reads more (mounts, devices, variables), "
        "PiHerder sends one shell script, reads what its pages show, and stores a job and a row per host; "
        "everything, the 20 hosts included, shares one machine"
    )
    return [Result(f"facts of {HOSTS} hosts", median(ours), "s", AIM, median(theirs), rounds, note)]
