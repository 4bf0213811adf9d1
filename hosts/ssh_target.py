"""A host as SSH sees it, how long to wait for it, and what a command leaves."""

from dataclasses import dataclass, field

from hosts.host_key import HostKey
from hosts.ssh_errors import HostRefused


@dataclass(frozen=True, slots=True)
class Timeouts:
    """All in seconds. A login takes at most connect + banner + auth.

    ``probe`` is the pause between signs of life asked from the host; after ``probes`` of them without an answer the
    connection counts as lost. ``stop`` lies between TERM and KILL of a command; ``confirm`` is how long its end may
    stay unconfirmed.
    """

    connect: float = 4.0
    banner: float = 4.0
    auth: float = 6.0
    channel: float = 10.0
    probe: float = 10.0
    probes: int = 3
    stop: float = 5.0
    confirm: float = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """A host as SSH sees it. ``login_password`` is for one-time use, such as adding a host."""

    name: str
    address: str
    port: int
    user: str
    pins: tuple[HostKey, ...]
    private_key: str = field(repr=False)
    sudo_password: str | None = field(default=None, repr=False)
    login_password: str | None = field(default=None, repr=False)
    jump: "Target | None" = None

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.name} ({self.address} port {self.port})"

    def refuse_other_key(self, shown: HostKey) -> None:
        """Any pinned key will do; a key of another kind alone is as suspicious as another key. Raises HostRefused."""
        if shown in self.pins:
            return
        pinned = " or ".join(f"{pin.fingerprint} ({pin.key_type})" for pin in self.pins)
        raise HostRefused(
            f"{self.where} shows the host key {shown.fingerprint} ({shown.key_type}), pinned is {pinned}: if the "
            "host was reinstalled, compare the fingerprint on its own screen and pin the new key; else do not connect.",
            "host_key_changed",
        )


@dataclass(frozen=True, slots=True)
class Result:
    """What a command left. ``exit_status`` is None when its session was killed on the host."""

    exit_status: int | None
    stdout: str
    stderr: str
    cut: bool
