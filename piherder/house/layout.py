"""Where an installation lies. `root` puts all of it below another folder, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

USER = "piherder"
PARTS = ("web", "worker", "beat")
REDIS = "redis"
TARGET = "piherder.target"


def unit(part: str) -> str:
    """The service of one part: web, worker, beat or redis."""
    return f"piherder-{part}.service"


@dataclass(frozen=True, slots=True)
class Layout:
    """Every path of an installation."""

    root: Path = Path("/")

    @property
    def code(self) -> Path:
        """Releases beside each other, owned by root; the services only read them."""
        return self.root / "opt/piherder"

    @property
    def current(self) -> Path:
        """The link to the release that runs."""
        return self.code / "current"

    @property
    def upgrades(self) -> Path:
        """What each upgrade noted for its way back; root's own, so that nothing else tells root what to restore."""
        return self.code / "upgrades"

    @property
    def settings(self) -> Path:
        """The settings, as systemd reads them."""
        return self.root / "etc/piherder/piherder.env"

    @property
    def units(self) -> Path:
        """Units of this machine's owner."""
        return self.root / "etc/systemd/system"

    @property
    def link(self) -> Path:
        """The command on everybody's PATH."""
        return self.root / "usr/local/bin/herder"

    @property
    def data(self) -> Path:
        """The data folder, unless the settings name another."""
        return self.root / "var/lib/piherder"

    @property
    def backups(self) -> Path:
        """The first backup root, unless --backups or the settings name another."""
        return self.root / "var/backups/piherder"

    @property
    def release(self) -> Path | None:
        """The release that runs; None when there is none."""
        return self.current.resolve() if self.current.is_dir() else None
