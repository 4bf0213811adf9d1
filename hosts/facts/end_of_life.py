"""Last day with free security updates of the releases that hosts run."""

import datetime

_DEBIAN = {
    "9": "2022-06-30",
    "10": "2024-06-30",
    "11": "2026-08-31",
    "12": "2028-06-30",
    "13": "2030-06-30",
}

_UBUNTU = {
    "16.04": "2021-04-30",
    "18.04": "2023-05-31",
    "20.04": "2025-05-29",
    "22.04": "2027-06-01",
    "23.10": "2024-07-11",
    "24.04": "2029-05-31",
    "24.10": "2025-07-10",
    "25.04": "2026-01-15",
    "25.10": "2026-07-09",
    "26.04": "2031-05-29",
    "26.10": "2027-07-15",
}

_TABLES = {"debian": _DEBIAN, "raspbian": _DEBIAN, "ubuntu": _UBUNTU}


def end_of_life(os_id: str | None, version: str | None) -> datetime.date | None:
    """Return the last day of free security updates, None for what the table does not know.

    Source: Debian package distro-info-data 0.58+deb12u7, /usr/share/distro-info/debian.csv column eol-lts and
    ubuntu.csv column eol (paid extensions, ELTS and ESM, do not count). Raspberry Pi OS publishes no dates of its own;
    it is built on a Debian release and takes that release's date.
    """
    day = _TABLES.get(os_id or "", {}).get(version or "")
    return datetime.date.fromisoformat(day) if day else None
