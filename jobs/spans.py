"""How times and sizes are written for a person.

Apart from `terminal`, because rich takes 3 MB in each process and those that only run jobs write no tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

if TYPE_CHECKING:
    from datetime import datetime, timedelta

UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """A length of time in its largest unit, rounded down: "45 s", "3 min", "2 h", "5 d"."""
    whole = int(abs(seconds))
    for length, unit in UNITS:
        if whole >= length:
            return f"{whole // length} {unit}"
    return "0 s"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """`moment` as seen from `now` (default: this moment): "3 min ago", "in 2 h", "now" or "never"."""
    if moment is None:
        return "never"
    seconds = ((now or timezone.now()) - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(seconds)}"


def took(length: timedelta | None) -> str:
    """How long something ran: "0.4 s", "45 s", "2 min 05 s", "1 h 02 min"; "" when it never ran."""
    if length is None:
        return ""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(count: int | None) -> str:
    """Bytes in binary units: "512 B", "1.5 GiB"; "unknown" for None."""
    if count is None:
        return "unknown"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def stamp(moment: datetime) -> str:
    """Local date and time to the minute."""
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M}"
