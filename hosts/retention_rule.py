"""Which generations of a host may go: a pure rule that would rather ask than remove.

The newest good generation of each source, pinned ones and ones in use always stay. Failed and unfinished ones are
neither counted nor removed here; the next run takes them over. Order is the sequence, never the clock, which may have
jumped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

GOOD = "good"
MAX_SHARE = 0.30
"""The largest share of a host's good generations that goes without a question."""
SLACK = timedelta(minutes=2)
"""How far a clock that is being set may step back without a question."""

TOO_MANY, UNSYNCHRONISED, CLOCK_BEHIND, CLOCK_AHEAD = "too_many", "clock_unsynchronised", "clock_behind", "clock_ahead"


@dataclass(frozen=True, slots=True)
class Policy:
    """How many to keep per source: the newest `last`, and the newest of so many days, weeks (ISO) and months that have
    one.

    Raises ValueError for negative numbers and when all are zero, which is a form left empty and not a wish.
    """

    last: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0

    def __post_init__(self) -> None:
        """Refuse what nobody can mean."""
        numbers = (self.last, self.daily, self.weekly, self.monthly)
        if min(numbers) < 0 or max(numbers) == 0:
            raise ValueError("Keep at least one generation: set one of last, daily, weekly or monthly above zero.")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One generation. `taken_at` carries a time zone; `source` groups the generations that follow each other."""

    id: Hashable
    sequence: int
    taken_at: datetime
    pinned: bool = False
    in_use: bool = False
    status: str = GOOD
    source: Hashable = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What stays, with the reasons in words, and what may go. With a question nothing may: `remove` is empty.

    `would_remove` is what goes once a person has answered; `doubts` are the codes to pass as `confirmed` then.
    """

    keep: Mapping[Hashable, tuple[str, ...]]
    remove: tuple[Hashable, ...]
    question: str | None = None
    doubts: tuple[str, ...] = ()
    would_remove: tuple[Hashable, ...] = ()


class Doubt(NamedTuple):
    """One reason to ask first."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class _Rule:
    label: str
    count: int
    bucket: Callable[[Candidate], str]


@dataclass(slots=True)
class _Reasons:
    words: dict[Hashable, list[str]] = field(default_factory=dict)

    def add(self, candidate: Candidate, word: str) -> None:
        self.words.setdefault(candidate.id, []).append(word)


def plan(
    candidates: Iterable[Candidate],
    policy: Policy,
    *,
    now: datetime,
    clock_synchronised: bool | None,
    zone: tzinfo = UTC,
    max_share: float = MAX_SHARE,
    max_ahead: timedelta = timedelta(days=400),
    confirmed: Collection[str] = (),
) -> Plan:
    """Apply the policy to the generations of one host. Days, weeks and months are those of `zone`.

    Asks instead of removing when the clock is not synchronised (None: unknown, does not ask), when `now` lies before
    the newest generation or more than `max_ahead` after it, and when more than `max_share` of the good ones would go.
    The share is no matter while no source loses more than one: that is every night's work, also where it is 1 of 3.
    `confirmed` holds the doubts a person has answered with yes. Raises ValueError for a time without zone or a repeated
    id.
    """
    everything = list(candidates)
    _require_sane(everything, now)
    good = [c for c in everything if c.status == GOOD]
    reasons = _Reasons()
    for line in _by_source(good):
        _keep_line(line, policy, zone, reasons)
    keep = {key: tuple(words) for key, words in reasons.words.items()}
    remove = tuple(c.id for c in sorted(good, key=lambda c: c.sequence) if c.id not in keep)
    doubts = [
        d for d in _doubts(good, set(remove), now, clock_synchronised, max_share, max_ahead) if d.code not in confirmed
    ]
    if remove and doubts:
        return Plan(keep, (), " ".join(d.sentence for d in doubts), tuple(d.code for d in doubts), remove)
    return Plan(keep, remove, would_remove=remove)


def _require_sane(candidates: list[Candidate], now: datetime) -> None:
    if any(moment.tzinfo is None for moment in [now, *(c.taken_at for c in candidates)]):
        raise ValueError("retention needs times with a zone")
    if len({c.id for c in candidates}) != len(candidates):
        raise ValueError("retention needs each generation once")


def _by_source(good: list[Candidate]) -> list[list[Candidate]]:
    """Per source, the newest first."""
    lines: dict[Hashable, list[Candidate]] = {}
    for candidate in sorted(good, key=lambda c: c.sequence, reverse=True):
        lines.setdefault(candidate.source, []).append(candidate)
    return list(lines.values())


def _keep_line(line: list[Candidate], policy: Policy, zone: tzinfo, reasons: _Reasons) -> None:
    reasons.add(line[0], "the newest good one")
    for candidate in line:
        if candidate.pinned:
            reasons.add(candidate, "pinned")
        if candidate.in_use:
            reasons.add(candidate, "in use")
    # Pinned ones are kept besides the rule: whoever pins the last three does not mean to lose all others.
    counted = [c for c in line if not c.pinned]
    for rule in _rules(policy, zone):
        _keep_buckets(counted, rule, reasons)


def _rules(policy: Policy, zone: tzinfo) -> tuple[_Rule, ...]:
    return (
        _Rule("last", policy.last, lambda c: str(c.sequence)),
        _Rule("daily", policy.daily, lambda c: c.taken_at.astimezone(zone).strftime("%Y-%m-%d")),
        _Rule("weekly", policy.weekly, lambda c: c.taken_at.astimezone(zone).strftime("%G-W%V")),
        _Rule("monthly", policy.monthly, lambda c: c.taken_at.astimezone(zone).strftime("%Y-%m")),
    )


def _keep_buckets(line: list[Candidate], rule: _Rule, reasons: _Reasons) -> None:
    """Keep the newest of each of the first `count` buckets met."""
    met: set[str] = set()
    for candidate in line:
        if len(met) >= rule.count:
            return
        bucket = rule.bucket(candidate)
        if bucket not in met:
            met.add(bucket)
            reasons.add(candidate, f"{rule.label} {bucket}")


def _doubts(
    good: list[Candidate],
    going: set[Hashable],
    now: datetime,
    synchronised: bool | None,
    max_share: float,
    max_ahead: timedelta,
) -> Iterable[Doubt]:
    lines = _by_source(good)
    newest = max((line[0].taken_at for line in lines), default=now)
    if synchronised is False:
        yield Doubt(
            UNSYNCHRONISED, "The herder's clock is not synchronised; set up NTP, or confirm that the time is right."
        )
    if now < newest - SLACK:
        yield Doubt(
            CLOCK_BEHIND,
            f"The clock says {now:%Y-%m-%d %H:%M}, but the newest backup is of {newest:%Y-%m-%d}; check it.",
        )
    if now - newest > max_ahead:
        days = (now - newest).days
        yield Doubt(
            CLOCK_AHEAD,
            f"The newest backup is {days} days old; check the clock, or confirm that backups were off that long.",
        )
    most = max((sum(c.id in going for c in line) for line in lines), default=0)  # that one source loses
    if most > 1 and len(going) > max_share * len(good):
        yield Doubt(
            TOO_MANY,
            f"{len(going)} of {len(good)} generations of this host would be removed; confirm that this is wanted.",
        )
