"""Whether a host needs a reboot: the flag file of update-notifier, and the running kernel against those installed."""

import re
from collections.abc import Iterable, Mapping

from hosts.facts.model import Reboot

# A clock that is set after the boot moves the computed boot time by seconds.
_CLOCK_SLACK = 60


def flavour(release: str) -> str:
    """Return the part of a kernel release that names its build: `6.8.0-60-generic` is `generic`."""
    return "-".join(_split(release)[1])


def version_key(release: str) -> tuple[int, ...]:
    """Return the numbers of a kernel release without its flavour, so that …-100 is newer than …-97."""
    digits = (found for token in _split(release)[0] for found in re.findall(r"[0-9]+", token))
    return tuple(int(found[:9]) for found in digits)


def _split(release: str) -> tuple[list[str], list[str]]:
    tokens = release.split("-")
    count = next((i for i, token in enumerate(tokens) if not token[:1].isdigit()), len(tokens))
    return tokens[:count], tokens[count:]


def newest_of_flavour(running: str, installed: Iterable[str]) -> str | None:
    """Return the newest installed kernel of the running kernel's flavour, None when there is none."""
    mine = [release for release in installed if flavour(release) == flavour(running)]
    return max(mine, key=version_key, default=None)


def reboot(
    running: str | None,
    installed: Mapping[str, int | None] | None,
    flag: int | None,
    packages: tuple[str, ...],
    booted: int | None,
) -> Reboot:
    """Weigh the two signs. Times are seconds since 1970; `installed` maps kernel releases to when they were installed.

    A flag older than the boot is stale. A newer kernel that was there before the boot is one that the boot loader
    passes over (pinned, or not bootable here): another reboot changes nothing, so it is a note. Without a flag and
    without a kernel to compare with (a container, a kernel of one's own) nothing is known, as many distributions never
    write the flag.
    """
    signs: list[tuple[int | None, str, str]] = []
    if flag is not None:
        signs.append((flag, "flag file /run/reboot-required", "is older than the boot and ignored"))
    newest = newest_of_flavour(running, installed or ()) if running else None
    if running and newest and installed and version_key(newest) > version_key(running):
        sign = f"running {running}, installed {newest}"
        signs.append((installed[newest], sign, "but the last boot did not start it"))
    reasons = tuple(sign for when, sign, _ in signs if not _before(when, booted))
    notes = tuple(f"{sign} {aside}" for when, sign, aside in signs if _before(when, booted))
    known = flag is not None or newest is not None
    required = True if reasons else (False if known else None)
    return Reboot(required, reasons, packages if required else (), notes)


def _before(when: int | None, booted: int | None) -> bool:
    return when is not None and booted is not None and when < booted - _CLOCK_SLACK
