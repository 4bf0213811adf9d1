"""The closed registry of kinds, what a family sees of a running job, and the engine's way to a host.

A kind is declared once, by a class registered with `@register` in some app's `families` package. The engine knows a
kind only through this declaration, and a host only through the `HostGate` that the hosts app installs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from django.conf import settings
from django.utils.module_loading import autodiscover_modules

from jobs.models import Failure, Lane

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from django import forms

    from jobs.models import Job

Params = dict[str, Any]


class UnknownKind(Exception):
    """No family of that name is installed."""


class BadDeclaration(Exception):
    """A family declares something that the engine cannot keep."""


class JobFailed(Exception):
    """The work did not succeed; the text is one plain sentence for a person, `code` the reason for programs.

    `result` may carry what was measured until then.
    """

    def __init__(self, message: str, code: str = Failure.ERROR, result: Params | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.result = result or {}


class StopWork(Exception):
    """The work must end now: cancelled, out of time, its lock or its claim lost. Families let it pass."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unconfirmed = False


@dataclass(frozen=True, slots=True)
class Summary:
    """How a job succeeded: one line of evidence and the structured result behind it."""

    text: str
    result: Params = field(default_factory=dict)


class NotYet(Exception):
    """Raised by a family that has done nothing yet: something outside holds the work up; the job waits on a lock."""


class HostDown(Exception):
    """The host does not answer now; the job waits for it."""


class HostRefused(Exception):
    """The host answered and refused us; waiting would not help. `code` is a `Failure`."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Session(Protocol):
    """An open connection to a host, opaque to the engine but for `secrets`: texts that no log and no page may show."""

    @property
    def secrets(self) -> Sequence[str]:
        """Texts to hide."""

    def close(self) -> None:
        """End the connection."""


class HostGate(Protocol):
    """What the engine asks of the app that knows hosts."""

    def port_answers(self, host_ids: Sequence[int]) -> dict[int, bool]:
        """Try the TCP ports of all `host_ids` at once, 2 s in all; a host behind a jump host counts as answering."""

    def open(self, host_id: int, check: Callable[[], None]) -> Session:
        """Log in to the host. Raises HostDown or HostRefused."""

    def paused(self, host_id: int) -> str:
        """Why the host is paused, in words; "" when it is not."""

    def looks_down(self, host_id: int) -> bool:
        """True when the last contact with the host failed."""

    def herd(self) -> dict[int, str]:
        """Ids and names of all hosts that are looked after."""

    def seen_since(self, host_id: int, moment: datetime) -> bool:
        """True when a login worked after `moment`."""


class Run(Protocol):
    """What a family sees of the job it carries out."""

    params: Params
    job_id: int
    attempt: str
    host_id: int | None

    def shell(self) -> Any:
        """The connection to the job's host, opened at pick-up."""

    def log(self, line: str) -> None:
        """Add a line to the job's log."""

    def progress(self, done: int, total: int | None = None, label: str = "") -> None:
        """Say how far the work is; cheap, written at most once a second."""

    def check_cancel(self) -> None:
        """Raise StopWork when the work must end."""

    def shielded(self) -> AbstractContextManager[None]:
        """Within it no stop is raised: for a clean-up that must happen and is bounded in time."""

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than until the work must end. Raises StopWork."""

    def step(self, name: str) -> None:
        """Begin a named step by a fenced write: raises LostClaim when the job is no longer ours."""

    def on_stop(self, action: Callable[[], None]) -> None:
        """Call `action` once, from another thread, when the work must end."""


class Family:
    """Declaration of a kind plus its `run`. Subclasses set the attributes; `register` checks them."""

    kind: ClassVar[str]
    label: ClassVar[str]
    lanes: ClassVar[tuple[str, ...]] = ()
    mutex: ClassVar[bool] = False  # holds the host's rsync mutex and its fence
    queue: ClassVar[str] = "celery"
    task: ClassVar[str] = "exclusive_job"
    form_class: ClassVar[type[forms.Form] | None] = None
    needs_host: ClassVar[bool] = True
    reaches: ClassVar[bool] = True  # logs in to its host at pick-up; False for work on what is kept here
    exclusive: ClassVar[bool] = True
    time_limit: ClassVar[timedelta] = timedelta(hours=2)
    expires: ClassVar[timedelta | None] = None  # a row still pending after this fails
    cancellable: ClassVar[bool] = True
    leaves_a_slot: ClassVar[bool] = False  # scheduled ones start only while another slot stays free
    catch_up: ClassVar[bool] = False  # a scheduled run missed while its host was away is made up for once
    keep_log: ClassVar[bool] = True  # False: a good run leaves no stored log
    keep_for: ClassVar[timedelta | None] = None  # None: the site's own number of days

    def run(self, run: Run) -> Summary:
        """Do the work. Raises JobFailed with a plain sentence when it did not succeed."""
        raise NotImplementedError

    def carry_out(self, run: Run) -> Summary:
        """What the engine calls; a base class of families may translate errors around `run`."""
        return self.run(run)

    def lanes_of(self, host_id: int | None, params: Params) -> tuple[str, ...]:
        """Names of the lanes this request takes; the declared ones unless a family knows better."""
        return self.lanes

    def schedule_skip(self, host_id: int) -> str:
        """Why a schedule for all hosts passes this one over, "" when it does not."""
        return ""

    def limit_of(self, host_id: int | None, params: Params) -> timedelta:
        """The longest run of this request."""
        return self.time_limit


Settle = Callable[["Job"], "Summary | JobFailed | None"]
LONGEST_KIND = 64  # as wide as the column
_families: dict[str, Family] = {}
_gate: list[HostGate] = []


def register(cls: type[Family]) -> type[Family]:
    """Class decorator: check the declaration and add the kind.

    Raises BadDeclaration in words.
    """
    for name in ("kind", "label"):
        if not getattr(cls, name, ""):
            raise BadDeclaration(f"{cls.__name__} has no {name}.")
    if cls.kind in _families:
        raise BadDeclaration(f"The kind {cls.kind} is declared twice.")
    if cls.mutex and not cls.needs_host:
        raise BadDeclaration(f"{cls.kind} wants the host mutex but no host.")
    if cls.time_limit <= timedelta(0):
        raise BadDeclaration(f"{cls.kind} has no time limit.")
    if len(cls.kind) > LONGEST_KIND:
        raise BadDeclaration(f"The name {cls.kind} is longer than {LONGEST_KIND} characters.")
    if not isinstance(cls.lanes, tuple) or Lane.FENCE in cls.lanes:
        raise BadDeclaration(f"The lanes of {cls.kind} must be a tuple of names other than {Lane.FENCE}.")
    _families[cls.kind] = cls()
    return cls


def discover() -> None:
    """Import every app's `families`; the test kinds only where a setting asks."""
    autodiscover_modules("families")
    if settings.PIHERDER_TEST_KINDS:
        autodiscover_modules("test_kinds")


def get(kind: str) -> Family:
    """The family of `kind`. Raises UnknownKind in words."""
    try:
        return _families[kind]
    except KeyError:
        known = ", ".join(sorted(_families))
        raise UnknownKind(f"There is no kind of work called {kind}: known are {known}.") from None


def find(kind: str) -> Family | None:
    """The family of `kind`; None for one that is no longer installed, which old rows may name."""
    return _families.get(kind)


def label(kind: str) -> str:
    """What a kind does, in words; one that is gone keeps its name."""
    family = find(kind)
    return family.label if family else kind


def kinds() -> list[Family]:
    """All families, by kind."""
    return [_families[kind] for kind in sorted(_families)]


def settle_of(family: Family) -> Settle | None:
    """The family's read-only look at the host after a worker loss, None when it has none."""
    return getattr(family, "settle", None)


def install_gate(gate: HostGate) -> None:
    """Set the engine's way to a host (called once by the hosts app; tests may set another)."""
    _gate[:] = [gate]


def gate() -> HostGate:
    """The engine's way to a host."""
    return _gate[0]
