"""Hosts from an OpenSSH configuration: which can be taken over, which cannot and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosts.enrol import EnrolRefused, LoginKey, add, read_login_key
from hosts.host_key import BadKey, parse_public_line
from hosts.host_key import HostKey as Pin
from hosts.models import Host
from hosts.models.host import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hosts.openssh_import import Found

LONGEST_USER = 64  # as wide as the column


@dataclass(slots=True)
class Planned:
    """One host of the configuration with what is needed to store it; `problem` says why it is left out."""

    found: Found
    key: LoginKey | None
    key_name: str
    pins: tuple[Pin, ...]
    problem: str = ""

    @property
    def name(self) -> str:
        """Its name in the herd."""
        return self.found.alias

    @property
    def remark(self) -> str:
        """Why it is left out, and what is left out of it."""
        return "; ".join([*([self.problem] if self.problem else []), *self.found.notes])

    @property
    def jump(self) -> str:
        """Name of its jump host, or ""."""
        return self.found.proxy_jump or ""


def plan(found: Sequence[Found], key_file: Path | None = None) -> list[Planned]:
    """Judge every host; those that can be stored come first, after their jump host.

    Raises EnrolRefused when `key_file` is no usable key.
    """
    given = (read_login_key(key_file.read_text()), key_file.name) if key_file else None
    stored = dict(Host.herd.values_list("name", "pk"))
    planned = [_planned(each, given, stored) for each in found]
    ready: list[Planned] = []
    left = [each for each in planned if not each.problem]
    while ready_now := [each for each in left if not each.jump or each.jump in {*stored, *(r.name for r in ready)}]:
        ready += ready_now
        left = [each for each in left if each not in ready_now]
    for each in left:
        each.problem = f"its jump host {each.jump} is not among the hosts: add that one first"
    return [*ready, *(each for each in planned if each.problem)]


def _planned(found: Found, given: tuple[LoginKey, str] | None, stored: dict[str, int]) -> Planned:
    key, key_name = given or _own_key(found)
    pins = _pins(found)
    return Planned(found, key, key_name, pins, _problem(found, key, pins, stored))


def _own_key(found: Found) -> tuple[LoginKey | None, str]:
    """The first of its key files that can be used without a passphrase."""
    for file in found.identity_files:
        try:
            return read_login_key(file.read_text()), file.name
        except (EnrolRefused, OSError, UnicodeDecodeError):
            continue
    return None, ""


def _pins(found: Found) -> tuple[Pin, ...]:
    keys = []
    for line in found.host_keys:
        try:
            keys.append(parse_public_line(line))
        except BadKey:
            continue
    return tuple({key.key_type: key for key in keys}.values())


def _problem(found: Found, key: LoginKey | None, pins: tuple[Pin, ...], stored: dict[str, int]) -> str:
    if found.alias in stored:
        return "is there already"
    if not re.match(NAME.regex, found.alias) or len(found.alias) > 60:
        return "the name has characters that cannot be used here"
    if found.problems:
        return found.problems[0]
    if len(found.user) > LONGEST_USER:
        return "the user's name is too long"
    if key is None:
        return "no usable login key: name one with --key"
    return "" if pins else "its host key is not in known_hosts: use add_host"


def store(planned: Planned, *, by: str) -> Host:
    """Store one host of the plan with a nightly backup schedule. Raises what `enrol.add` raises."""
    if planned.key is None:
        raise EnrolRefused(f"{planned.name} has no usable login key: name one with --key.", wrong_use=True)
    jump = Host.herd.get(name=planned.jump) if planned.jump else None
    found = planned.found
    return add(
        planned.name, planned.key, planned.pins, by=by,
        address=found.address, port=found.port, user=found.user or "root", jump=jump, schedule=True,
    )  # fmt: skip
