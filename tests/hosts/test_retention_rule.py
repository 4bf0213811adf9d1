"""What retention may remove, and when it asks first."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hosts import retention_rule as rule
from hosts.retention_rule import Candidate, Plan, Policy

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ALL = (rule.TOO_MANY, rule.UNSYNCHRONISED, rule.CLOCK_BEHIND, rule.CLOCK_AHEAD)


def daily(count: int, status: str = "good", first: int = 1) -> list[Candidate]:
    """One generation a day, the newest of this morning."""
    return [
        Candidate(n, n, NOW - timedelta(days=first + count - n - 1, hours=9), status=status)
        for n in range(first, first + count)
    ]


def apply(candidates: list[Candidate], policy: Policy, *confirmed: str, synchronised: bool | None = True) -> Plan:
    return rule.plan(candidates, policy, now=NOW, clock_synchronised=synchronised, confirmed=confirmed)


def test_the_last_ones_stay() -> None:
    found = apply(daily(10), Policy(last=8))
    assert found.remove == (1, 2)
    assert found.keep[10][0] == "the newest good one"
    assert found.keep[3] == ("last 3",)


def test_failed_runs_do_not_count() -> None:  # case D01
    good, failed = daily(2), daily(3, "failed", first=3)
    found = apply(good + failed, Policy(last=2))
    assert set(found.keep) == {1, 2}
    assert found.remove == ()


def test_only_failed_runs_is_nothing_to_do() -> None:
    assert apply(daily(3, "failed"), Policy(last=1)) == Plan({}, ())


def test_good_ones_beyond_the_rule_go_while_runs_fail() -> None:  # case D03
    found = apply([*daily(14), *daily(5, "failed", first=15)], Policy(last=10))
    assert found.remove == (1, 2, 3, 4)
    assert found.question is None


def test_no_policy_goes_below_the_newest_good_one() -> None:
    found = apply([*daily(1), *daily(4, "writing", first=2)], Policy(monthly=1), *ALL)
    assert set(found.keep) == {1}


def test_order_is_the_sequence_not_the_clock() -> None:
    wrong_clock = [Candidate(n, n, NOW - timedelta(days=n)) for n in range(1, 11)]
    assert apply(wrong_clock, Policy(last=8)).remove == (1, 2)


def test_pinned_ones_stay_and_take_no_place() -> None:
    candidates = [Candidate(c.id, c.sequence, c.taken_at, pinned=c.sequence in (1, 10)) for c in daily(10)]
    found = apply(candidates, Policy(last=7))
    assert found.remove == (2,)
    assert found.keep[1] == ("pinned",)


def test_ones_in_use_stay() -> None:
    candidates = [Candidate(c.id, c.sequence, c.taken_at, in_use=c.sequence == 1) for c in daily(10)]
    found = apply(candidates, Policy(last=8))
    assert found.remove == (2,)
    assert found.keep[1] == ("in use",)


def test_days_weeks_and_months_keep_their_newest() -> None:
    found = apply(daily(60), Policy(daily=3, weekly=2, monthly=2), *ALL)
    assert set(found.keep) == {30, 58, 59, 60}
    assert found.keep[60] == ("the newest good one", "daily 2026-11-30", "weekly 2026-W49", "monthly 2026-11")


def test_the_newest_of_several_in_a_day_stays() -> None:
    hours = [Candidate(n, n, datetime(2026, 11, 30, n, tzinfo=UTC)) for n in range(1, 6)]
    assert set(apply(hours, Policy(daily=1), *ALL).keep) == {5}


def test_a_day_is_that_of_the_zone() -> None:
    two = [
        Candidate(1, 1, datetime(2026, 11, 29, 22, 30, tzinfo=UTC)),
        Candidate(2, 2, datetime(2026, 11, 29, 23, 30, tzinfo=UTC)),
    ]
    assert len(apply(two, Policy(daily=2)).keep) == 1
    there = rule.plan(two, Policy(daily=2), now=NOW, clock_synchronised=True, zone=ZoneInfo("Europe/Berlin"))
    assert len(there.keep) == 2


def test_gaps_do_not_use_up_the_days() -> None:
    gap = [Candidate(n, n, NOW - timedelta(days=30 * (4 - n))) for n in range(1, 5)]
    assert set(apply(gap, Policy(daily=3)).keep) == {2, 3, 4}


def test_a_large_removal_asks_and_removes_nothing() -> None:
    found = apply(daily(10), Policy(last=6))
    assert found.remove == ()
    assert found.would_remove == (1, 2, 3, 4)
    assert found.doubts == (rule.TOO_MANY,)
    assert "4 of 10 generations" in (found.question or "")


def test_a_yes_lets_a_large_removal_happen() -> None:
    assert apply(daily(10), Policy(last=6), rule.TOO_MANY).remove == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("there", "kept", "asks"), [(2, 1, False), (3, 2, False), (3, 1, True), (4, 2, True), (10, 7, False), (10, 6, True)]
)
def test_one_of_few_is_a_normal_night(there: int, kept: int, asks: bool) -> None:
    assert (apply(daily(there), Policy(last=kept)).question is not None) is asks


def test_one_per_source_is_a_normal_night() -> None:
    candidates = [Candidate(f"{s}{n}", n, NOW - timedelta(days=4 - n), source=s) for s in "abc" for n in range(1, 4)]
    assert apply(candidates, Policy(last=2)).remove == ("a1", "b1", "c1")


def test_what_other_sources_do_not_lose_one_source_may_not_lose_either() -> None:
    single = [Candidate(f"s{n}", n, NOW - timedelta(days=1), source=n) for n in range(9)]
    many = [Candidate(f"m{n}", n, NOW - timedelta(days=12 - n), source="m") for n in range(12)]
    found = apply(single + many, Policy(last=2))
    assert (found.remove, found.doubts) == ((), (rule.TOO_MANY,))
    assert "10 of 21 generations" in (found.question or "")


def test_each_source_keeps_its_own_newest() -> None:
    old = [Candidate(f"old{n}", n, NOW - timedelta(days=200 + n), source="old") for n in range(1, 3)]
    new = [Candidate(f"new{n}", 10 + n, NOW, source="new") for n in range(5)]
    assert "old2" in apply(old + new, Policy(last=1), *ALL).keep


def test_an_unsynchronised_clock_asks() -> None:
    found = apply(daily(10), Policy(last=9), synchronised=False)
    assert (found.remove, found.doubts) == ((), (rule.UNSYNCHRONISED,))
    assert "not synchronised" in (found.question or "")


def test_an_unknown_clock_does_not_ask() -> None:
    assert apply(daily(10), Policy(last=9), synchronised=None).remove == (1,)


@pytest.mark.parametrize(
    ("shift", "doubt"),
    [
        (timedelta(hours=-13), rule.CLOCK_BEHIND),
        (timedelta(days=401), rule.CLOCK_AHEAD),
        (timedelta(days=9999), rule.CLOCK_AHEAD),
    ],
)
def test_an_implausible_clock_asks(shift: timedelta, doubt: str) -> None:
    found = rule.plan(daily(10), Policy(last=9), now=NOW + shift, clock_synchronised=True)
    assert (found.remove, found.doubts) == ((), (doubt,))


def test_a_clock_that_steps_back_a_little_does_not_ask() -> None:
    newest = daily(10)[-1].taken_at
    assert rule.plan(daily(10), Policy(last=9), now=newest - timedelta(minutes=1), clock_synchronised=True).remove == (
        1,
    )


def test_how_far_ahead_is_implausible_can_be_set() -> None:
    found = rule.plan(daily(10), Policy(last=9), now=NOW, clock_synchronised=True, max_ahead=timedelta(hours=8))
    assert found.doubts == (rule.CLOCK_AHEAD,)


def test_nothing_to_remove_asks_nothing() -> None:
    assert apply(daily(3), Policy(last=9), synchronised=False).question is None


def test_all_doubts_are_asked_at_once() -> None:
    found = rule.plan(daily(10), Policy(last=2), now=NOW - timedelta(days=20), clock_synchronised=False)
    assert set(found.doubts) == {rule.UNSYNCHRONISED, rule.CLOCK_BEHIND, rule.TOO_MANY}


@pytest.mark.parametrize("numbers", [(0, 0, 0, 0), (-1, 2, 0, 0), (3, 0, 0, -2)])
def test_a_policy_that_keeps_nothing_is_refused(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Policy(*numbers)


def test_times_need_a_zone() -> None:
    with pytest.raises(ValueError, match="zone"):
        rule.plan(daily(1), Policy(last=1), now=datetime(2026, 1, 1), clock_synchronised=True)


def test_an_id_comes_once() -> None:
    with pytest.raises(ValueError, match="once"):
        apply(daily(2) + daily(2), Policy(last=1))


def random_case(rng: random.Random, sources: str = "ab") -> tuple[list[Candidate], Policy]:
    """Any herd of generations, clock jumps included, under any policy."""

    def one(number: int) -> Candidate:
        taken = NOW - timedelta(minutes=rng.randrange(-5000, 900_000))
        status = rng.choice(["good", "good", "good", "failed", "writing", "deleting"])
        return Candidate(number, number, taken, rng.random() < 0.1, rng.random() < 0.1, status, rng.choice(sources))

    numbers = [rng.randrange(0, 6) for _ in range(4)]
    return [one(n) for n in range(rng.randrange(0, 40))], Policy(*(numbers if any(numbers) else (1, 0, 0, 0)))


@pytest.mark.parametrize("seed", range(200))
def test_whatever_comes_the_protected_stay(seed: int) -> None:
    candidates, policy = random_case(random.Random(seed))
    found = apply(candidates, policy, *ALL)
    gone, good = set(found.remove), [c for c in candidates if c.status == "good"]
    assert gone.isdisjoint(c.id for c in candidates if c.pinned or c.in_use or c.status != "good")
    assert gone | set(found.keep) == {c.id for c in good}
    assert gone.isdisjoint(found.keep)
    for source in {c.source for c in good}:
        line = sorted((c for c in good if c.source == source), key=lambda c: c.sequence)
        assert line[-1].id not in gone
        assert gone.isdisjoint(c.id for c in line[max(0, len(line) - policy.last) :])


@pytest.mark.parametrize("seed", range(100))
def test_applied_twice_it_removes_nothing_more(seed: int) -> None:
    candidates, policy = random_case(random.Random(seed))
    gone = set(apply(candidates, policy, *ALL).remove)
    assert apply([c for c in candidates if c.id not in gone], policy, *ALL).remove == ()


@pytest.mark.parametrize("seed", range(100))
def test_without_a_yes_no_source_loses_two_where_more_than_three_in_ten_go(seed: int) -> None:
    candidates, policy = random_case(random.Random(seed), "aaaaabcdefgh")
    good = {c.id: c for c in candidates if c.status == "good"}
    found = apply(candidates, policy)
    losers = [good[key].source for key in found.remove]
    assert 10 * len(losers) <= 3 * len(good) or len(losers) == len(set(losers))
    assert not (found.question and found.remove)


@pytest.mark.parametrize("seed", range(50))
def test_the_order_of_the_list_does_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    candidates, policy = random_case(rng)
    mixed = rng.sample(candidates, len(candidates))
    assert apply(mixed, policy, *ALL).remove == apply(candidates, policy, *ALL).remove
