"""What can go wrong between the herder and a host, told apart by what a job does about it."""

from typing import Literal

RefusalCode = Literal["auth_failed", "host_key_changed", "host_key_unknown", "incompatible"]


class SshError(Exception):
    """Base of the errors below; ``str()`` is one plain sentence that names the host and what to do."""


class HostDown(SshError):
    """Nothing answers, no banner in time, closed at once, no SSH there, or the name is unknown: the job may wait."""


class HostRefused(SshError):
    """The host answers but must not or will not let us in: fails at once."""

    def __init__(self, message: str, code: RefusalCode) -> None:
        super().__init__(message)
        self.code: RefusalCode = code


class LostContact(SshError):
    """The connection died while a command ran: whether the command finished is unknown."""


class SudoRefused(SshError):
    """The host's sudo does not let this user become root with what the herder knows."""


class CommandTimeout(SshError):
    """A command ran longer than it may; its processes on the host were ended."""


class StopUnconfirmed(SshError):
    """A command had to be stopped, but the host could not be asked whether its processes are gone.

    ``__cause__`` is the reason for the stop: what ``check`` or ``on_line`` raised, or a CommandTimeout.
    """
