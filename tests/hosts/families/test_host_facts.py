"""Facts of a real host, how they are kept, and how the history is thinned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from hosts.families.host_facts import KEEP_ALL, KEEP_DAILY, surplus
from hosts.models import FactsSample, HostFacts
from jobs import logs
from jobs.models import JobLine, Status

if TYPE_CHECKING:
    from .conftest import MakePi, Pi

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_a_run_leaves_one_current_row_one_sample_and_no_log(pi: Pi) -> None:
    job = pi.run("host_facts")
    assert (job.status, job.error) == (Status.SUCCEEDED, "")
    assert HostFacts.objects.get().data["kernel"]
    assert FactsSample.objects.get().numbers
    assert not JobLine.objects.filter(job=job).exists()
    assert not list(logs.path_of(job.pk).parent.glob(f"{job.pk}.*"))


def test_the_current_row_is_overwritten_and_samples_are_an_hour_apart(pi: Pi) -> None:
    pi.run("host_facts")
    first = HostFacts.objects.get().read_at
    pi.run("host_facts")
    assert HostFacts.objects.get().read_at > first
    assert FactsSample.objects.count() == 1
    FactsSample.objects.update(at=first - timedelta(hours=1))
    pi.run("host_facts")
    assert FactsSample.objects.count() == 2


def test_old_samples_go_when_a_new_one_is_added(pi: Pi) -> None:
    FactsSample.objects.create(host=pi.host, at=datetime(2001, 1, 1, tzinfo=UTC), numbers={})
    pi.run("host_facts")
    assert FactsSample.objects.get().at.year > 2001


@pytest.mark.parametrize("answer", ["echo Nonsense from a router", "true"])
def test_an_answer_that_is_none_fails_in_words(make_pi: MakePi, answer: str) -> None:
    job = make_pi(force_command=answer).run("host_facts")
    assert (job.status, HostFacts.objects.exists()) == (Status.FAILED, False)
    assert job.error == ("The host did not answer as a Linux machine does: nothing that could be read came back.")


def ages(*hours: float) -> list[tuple[int, datetime]]:
    """Samples with the ids 0, 1, … that are so many hours old."""
    return [(number, NOW - timedelta(hours=age)) for number, age in enumerate(hours)]


def test_two_weeks_are_kept_whole() -> None:
    assert surplus(ages(*range(0, 14 * 24, 6), KEEP_ALL.total_seconds() / 3600), NOW) == []


def test_older_days_keep_their_newest() -> None:
    noon = 20 * 24  # twenty days ago at noon
    assert sorted(surplus(ages(noon - 3, noon, noon + 3, noon + 24), NOW)) == [1, 2]


def test_past_two_years_nothing_is_kept() -> None:
    edge = KEEP_DAILY.total_seconds() / 3600
    assert surplus(ages(edge - 24, edge + 24), NOW) == [1]


def test_samples_of_a_clock_that_was_ahead_are_left_alone() -> None:
    assert surplus(ages(-24 * 400, 1), NOW) == []


def test_nothing_is_surplus_of_nothing() -> None:
    assert surplus([], NOW) == []
