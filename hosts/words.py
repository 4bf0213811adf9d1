"""Numbers as people read them."""

from __future__ import annotations


def size(number: int) -> str:
    """Bytes as people read them: "3.4 GB" (powers of 1000, as disks are sold)."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if round(value, 1) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def count(number: int, one: str, many: str = "") -> str:
    """ "1 file", "12,345 files"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
