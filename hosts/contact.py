"""First contact and tests of a host over SSH: its keys, the login key put in place, and what it lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from django.utils import timezone

from hosts import ssh
from hosts.access import target_of
from hosts.copying import rights
from hosts.examine import SCRIPT, Check, failed, judge, read_answers, tier
from hosts.gate import note_failure
from hosts.host_key import parse_public_line
from hosts.host_keys import scan
from hosts.models import Host
from hosts.ssh_errors import HostDown, HostRefused, SshError
from hosts.ssh_target import Target, Timeouts
from hosts.store.paths import decode_name
from jobs.registry import JobFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosts.host_key import HostKey as Pin

COMMAND_SEC: Final = 60.0
# Arguments: the public line, and its type and text. A key that is there already, whatever its comment, is left alone; a
# file whose last line lacks its end gets it first, so that two keys never share a line.
INSTALL: Final = r"""
set -e
umask 077
folder=$HOME/.ssh file=$HOME/.ssh/authorized_keys
mkdir -p "$folder"
touch "$file"
if ! grep -qF -- "$2" "$file"; then
    if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then echo >> "$file"; fi
    printf '%s\n' "$1" >> "$file"
fi
chmod 600 "$file"
"""


class InstallFailed(SshError):
    """The public key could not be written on the host; the text is one plain sentence."""


def shown_keys(address: str, port: int, jump: Host | None = None) -> tuple[Pin, ...]:
    """The host keys that a host offers, best kind first; nothing is trusted by this. Raises SshError."""
    limit = Timeouts().connect
    if jump is None:
        return scan(address, port, limit)
    with ssh.connect(target_of(jump)) as shell:
        return scan(address, port, limit, via=shell.open_tcp)


def login_target(name: str, address: str, port: int, user: str, pins: Sequence[Pin], jump: Host | None) -> Target:
    """A host that is not stored yet, as SSH sees it; key or password are added by `replace`."""
    way = target_of(jump) if jump else None
    return Target(name, address, port, user, tuple(pins), private_key="", jump=way)


def try_login(target: Target, private_key: str) -> None:
    """Log in with this key and leave again. Raises SshError."""
    ssh.connect(replace(target, private_key=private_key)).close()


def install_key(target: Target, public_line: str, password: str) -> None:
    """Log in once with `password` and append the public key to ~/.ssh/authorized_keys (0600, no duplicates).

    Raises SshError. The password is used for this login alone.
    """
    with ssh.connect(replace(target, login_password=password)) as shell:
        put_key(shell, public_line)


def put_key(shell: ssh.Shell, public_line: str) -> None:
    """Append the public key for the user of this connection. Raises InstallFailed in words."""
    line = public_line.strip()
    key = parse_public_line(line).line
    result = shell.run(["sh", "-c", INSTALL, "install", line, key], timeout=COMMAND_SEC)
    if result.exit_status != 0:
        said = (result.stderr.strip().splitlines() or ["it did not say why"])[-1]
        raise InstallFailed(
            f"The key could not be written on {shell.target.name} ({said}): is the home folder writable?"
        )


def examine(host: Host) -> list[Check]:
    """Try a host as a job would and name what is missing; what was found is noted on the host."""
    try:
        shell = ssh.connect(target_of(host))
    except HostDown as error:
        note_failure(host.pk, str(error))
        return [Check("reach", False, "no answer", str(error))]
    except HostRefused as error:
        note_failure(host.pk, str(error))
        return _refused(error)
    Host.objects.filter(pk=host.pk).update(last_seen=timezone.now(), last_error="", last_error_at=None)
    with shell:
        key = shell.server_host_key
        first = [
            Check("reach", True, f"{host.address} port {host.port}"),
            Check("host key", True, f"{key.fingerprint} ({key.key_type.removeprefix('ssh-')})"),
            Check("login", True, f"as {host.user}"),
        ]
        return [*first, *_inside(shell, host)]


def _refused(error: HostRefused) -> list[Check]:
    reach = Check("reach", True, "answers")
    if error.code == "auth_failed":
        return [reach, Check("host key", True, "as pinned"), Check("login", False, "refused", str(error))]
    return [reach, Check("host key", False, error.code.removeprefix("host_key_"), str(error))]


def _inside(shell: ssh.Shell, host: Host) -> list[Check]:
    sources = list(host.sources.values_list("path", flat=True))
    paths = [decode_name(path).decode("utf-8", "surrogateescape") for path in sources]
    mode = shell.sudo_mode()
    sudo = _copies_by_sudo(shell, host, mode)
    first = tier(mode, copies=sudo or mode == "root")
    result = shell.run(["sh", "-c", SCRIPT, "examine", "sudo -n" if sudo else "", *paths], timeout=COMMAND_SEC)
    if result.exit_status != 0:
        return [first, failed(host.name, result.exit_status, result.stderr)]
    return [first, *judge(host.name, read_answers(result.stdout), sources)]


def _copies_by_sudo(shell: ssh.Shell, host: Host, mode: str) -> bool:
    """As copies find it out; where rsync is missing, as it will be once that is there."""
    try:
        return rights(shell, host)[1]
    except JobFailed:
        return mode == "passwordless"
