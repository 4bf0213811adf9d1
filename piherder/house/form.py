"""Which form of installation this code belongs to, and what its supervisor says of its programs."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from piherder import env
from piherder.house import folder, release, systemd, units
from piherder.house.layout import PARTS, REDIS, TARGET, unit
from piherder.house.stack import DUPLICATE_NAME

if TYPE_CHECKING:
    from pathlib import Path

CLONE_FORM, INSTALLED_FORM, CONTAINER_FORM = "clone", "installed", "container"
HIDDEN = ("/home", "/root", "/run/user")  # what ProtectHome= keeps from the services (systemd.exec(5))


@dataclass(slots=True)
class Form:
    """The form, one line about it, what each program does as its supervisor sees it, and what is wrong in words."""

    kind: str
    words: str
    start: str
    release: str
    programs: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def kind(clone: Path = folder.CLONE) -> str:
    """ "installed" for a release of `make install`, "container" where the image says so, else "clone"."""
    if (clone / release.MARK).is_file():
        return INSTALLED_FORM
    return CONTAINER_FORM if env.flag("PIHERDER_CONTAINER") else CLONE_FORM


def look(clone: Path = folder.CLONE) -> Form:
    """The form of this code's installation now; bounded by systemd's own answer."""
    found = kind(clone)
    if found == INSTALLED_FORM:
        return installed(clone)
    if found == CONTAINER_FORM:
        words = f"container {socket.gethostname()}, version {release.version(clone)}"
        return Form(found, words, "docker compose up -d", release.version(clone))
    return from_clone(clone, folder.read_state(env.data_folder()))


def from_clone(clone: Path, state: folder.State | None) -> Form:
    """A clone: `make run` tells by its state file."""
    if state is None:
        return Form(CLONE_FORM, f"clone {clone}, make run is not running", "make run", release.version(clone))
    words = f"clone {clone}, make run is process {state.supervisor}"
    programs = {
        name: f"process {state.programs[name]}" if name in state.programs else "restarting" for name in state.restarts
    }
    return Form(CLONE_FORM, words, "make run", release.version(clone), programs)


def installed(clone: Path) -> Form:
    """Services of systemd."""
    found = Form(INSTALLED_FORM, f"installed, release {clone.name}", f"sudo systemctl start {TARGET}", clone.name)
    try:
        shown = systemd.show(
            [TARGET, *map(unit, (REDIS, *PARTS)), *systemd.instances(units.MORE_WORKERS.partition(".")[0])]
        )
    except folder.Refused as refusal:
        found.problems.append(str(refusal))
        return found
    shown = [each for each in shown if each.loaded]
    found.programs = {each.name: each.words for each in shown}
    found.problems = [problem(each) for each in shown if not each.active]
    found.problems += [
        f"{each.name} is not started at boot: sudo systemctl enable {each.name}." for each in shown if not each.enabled
    ]
    return found


def problem(found: systemd.Unit) -> str:
    """One sentence about a service that does not run."""
    if found.status == DUPLICATE_NAME:
        return (
            f"{found.name} does not start, because a worker of the same name is at work on this database elsewhere: "
            f"give this one another with PIHERDER_NODE in its settings."
        )
    how = f"{found.state}, {found.detail}"
    return (
        f"{found.name} does not run ({how}): journalctl -u {found.name} tells why; sudo systemctl start {found.name}."
    )


def hidden_roots(form: Form, roots: list[str]) -> list[str]:
    """A sentence for each backup root that the installed services cannot see, although a shell can."""
    if form.kind != INSTALLED_FORM:
        return []
    return [
        f"The backup root {path} lies in a home folder, which the services cannot see: choose one elsewhere."
        for path in roots
        if path.startswith(tuple(f"{each}/" for each in HIDDEN))
    ]


def services_run() -> bool:
    """True while a service of an installed PiHerder that works on the database is up."""
    if kind() != INSTALLED_FORM:
        return False
    try:
        return any(each.pid for each in systemd.show(map(unit, PARTS)))
    except folder.Refused:
        return False
