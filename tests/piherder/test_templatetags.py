"""What templates say of moments, lengths, bars and jobs."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import Job, Status, WaitingOn
from piherder.templatetags import herd


def job(**fields: Any) -> Job:
    return Job(**{"kind": "host_facts", **fields})


def test_a_moment_is_a_distance_with_the_exact_time_on_hover() -> None:
    moment = datetime(2026, 11, 30, 2, 15, 7, tzinfo=UTC)
    shown = herd.moment(moment)
    assert 'datetime="2026-11-30T02:15:07+00:00"' in shown
    assert 'title="2026-11-30 ' in shown
    assert herd.moment(timezone.now() - timedelta(minutes=3)).endswith(">3 min ago</time>")


def test_what_never_was() -> None:
    assert herd.moment(None) == "never"
    assert herd.took(None) == "–"
    assert herd.size(None) == ""


def test_numbers() -> None:
    assert herd.thousands(1234567) == "1,234,567"
    assert herd.size(1_500_000) == "1.5 MB"
    assert herd.took(timedelta(minutes=2, seconds=5)) == "2 min 05 s"


def test_results_are_readable_and_never_fail() -> None:
    assert herd.pretty({"name": "grün", "when": datetime(2026, 1, 1, tzinfo=UTC)}).count("\n") == 3
    assert "grün" in herd.pretty({"name": "grün"})


def test_a_bar_of_an_unknown_share_is_empty() -> None:
    assert 'class="bar unknown"' in herd.bar(None, "size unknown", "bad")
    assert 'width="0"' in herd.bar(None, "size unknown")


def test_a_bar_says_its_words_and_escapes_them() -> None:
    assert 'aria-label="&lt;b&gt;"' in herd.bar(5, "<b>")


@pytest.mark.parametrize(
    ("fields", "sign"),
    [
        ({}, "queue"),
        ({"waiting_on": WaitingOn.HOST}, "wait"),
        ({"waiting_on": WaitingOn.HOST, "attempt": uuid.uuid4()}, "queue"),
        ({"status": Status.RUNNING}, "run"),
        ({"status": Status.SUCCEEDED}, "ok"),
        ({"status": Status.FAILED}, "bad"),
        ({"status": Status.CANCELLED}, "off"),
    ],
)
def test_every_state_has_a_sign(fields: dict[str, Any], sign: str) -> None:
    assert herd.sign(job(**fields)) == sign


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, ""),
        ({"waiting_why": "It sleeps."}, "It sleeps"),
        ({"status": Status.RUNNING, "step": "copy"}, "copy"),
        ({"status": Status.RUNNING, "progress_label": "4 MB/s"}, "4 MB/s"),
        ({"status": Status.RUNNING, "step": "copy", "progress_done": 1, "progress_total": 4}, "copy: 25 %"),
        ({"status": Status.SUCCEEDED, "summary": "12 files."}, "12 files."),
        ({"status": Status.FAILED, "summary": "old", "error": "It broke."}, "It broke."),
    ],
)
def test_one_line_says_what_a_job_does(fields: dict[str, Any], line: str) -> None:
    assert herd.doing(job(**fields)) == line


def test_a_probe_that_is_due_is_now() -> None:
    assert herd.probe_words(timezone.now() - timedelta(seconds=5)) == "next probe now"
    assert herd.probe_words(timezone.now() + timedelta(seconds=20)).startswith("next probe in ")
    assert herd.probe_words(None) == ""


def test_kinds_and_workers_have_words() -> None:
    assert herd.kind_label(job()) == "Read facts"
    assert herd.kind_label(job(kind="vanished")) == "vanished"
    assert (herd.node_words(job()), herd.node_words(job(node="w1"))) == ("not claimed", "w1")
