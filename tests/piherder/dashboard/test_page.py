"""The first page: what it costs, when it is asked for again, what it says when there is nothing."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse
from django.utils import timezone

from hosts.models import Host
from jobs.models import EngineSettings, Job, JobEvent, WaitingOn
from jobs.schedules import ensure
from piherder.dashboard import seen, views
from tests import people
from tests.factories import change, fence, make_host, make_job, make_node, running_on, waiting_on
from tests.hosts.rows import make_generation, make_source
from tests.piherder.dashboard.rows import failed, past

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import DjangoAssertNumQueries

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true"}
EVIL = '"><script>alert(1)</script>'


@pytest.fixture(autouse=True)
def _nothing_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_drawn", {})


@pytest.fixture
def reader() -> Client:
    return people.reader()


def text(client: Client) -> str:
    return client.get(reverse("start")).content.decode()


def last_seen(shown: str) -> str:
    found = re.search(r"\?seen=([0-9a-f]{8})", shown)
    assert found
    return found[1]


def busy_herd(count: int) -> None:
    """Hosts with work of every sort."""
    me = make_node()
    for number in range(count):
        host = make_host(f"pi{number}")
        make_generation(make_source(host))
        failed("backup", host)
        past("backup_verify", host, ago=timedelta(hours=3))
        fence(running_on(me, make_job("backup", host)))
        waiting_on(WaitingOn.HOST, make_job("host_facts", host))
        ensure(f"Night {number}", {"kind": "backup", "host_id": host.pk}, cron="0 3 * * *")


def test_it_costs_ten_queries_however_large_the_herd(
    reader: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    busy_herd(15)
    with django_assert_max_num_queries(10):
        assert "Back up failed" in text(reader)


def test_the_question_whether_anything_changed_is_cheap(
    reader: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    busy_herd(15)
    tag = last_seen(text(reader))
    with django_assert_max_num_queries(6):
        answer = reader.get(reverse("start"), {"seen": tag}, headers=PART)
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_page_asked_for_by_a_person_is_always_whole(reader: Client) -> None:
    tag = last_seen(text(reader))
    assert reader.get(reverse("start"), {"seen": tag}).content.startswith(b"<!doctype html>")


def hold() -> None:
    EngineSettings.objects.update_or_create(pk=1, defaults={"held_at": timezone.now()})


CHANGES: list[Callable[[], object]] = [
    lambda: make_job("backup", make_host()),
    lambda: JobEvent.objects.create(job=Job.objects.get(), name="running"),
    lambda: Job.objects.update(progress_done=2),
    lambda: Job.objects.update(step="another"),
    lambda: Job.objects.update(waiting_on=WaitingOn.HOST),
    lambda: Host.objects.update(last_error_at=timezone.now()),
    lambda: Host.objects.update(paused_at=timezone.now()),
    lambda: make_host(),
    hold,
]


@pytest.mark.parametrize("do", CHANGES)
def test_what_changes_is_shown(reader: Client, do: Callable[[], object]) -> None:
    running_on(make_node(), make_job("host_facts", make_host()))
    tag = last_seen(text(reader))
    do()
    answer = reader.get(reverse("start"), {"seen": tag}, headers=PART)
    assert answer.status_code == 200
    assert last_seen(answer.content.decode()) == seen.now() != tag


def test_many_open_pages_have_it_drawn_once(
    reader: Client, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    busy_herd(3)
    first = reader.get(reverse("start"), headers=PART)
    boss = people.boss()
    with django_assert_max_num_queries(6):
        answer = boss.get(reverse("start"), {"seen": "another"}, headers=PART)
    assert answer.content == first.content
    assert answer["Cache-Control"] == "no-store"
    Job.objects.update(step="another")
    assert b"another" in boss.get(reverse("start"), headers=PART).content


def test_times_on_the_page_go_by(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = last_seen(text(reader))
    later = timezone.now() + timedelta(minutes=1)
    monkeypatch.setattr("piherder.dashboard.seen.timezone.now", lambda: later)
    assert reader.get(reverse("start"), {"seen": tag}, headers=PART).status_code == 200


def test_it_asks_more_often_while_something_runs(reader: Client) -> None:
    assert 'hx-trigger="every 15s"' in text(reader)
    make_job("retention")
    assert 'hx-trigger="every 5s"' in text(reader)


def test_an_empty_herd_says_the_next_step(reader: Client) -> None:
    shown = text(reader)
    assert "./herder add_host NAME" in shown
    assert "Nothing needs you." in shown
    assert "No schedule is on: <code>./herder first_start</code>" in shown


def test_a_quiet_herd_has_a_board_and_an_empty_day(reader: Client) -> None:
    make_host("pi1")
    shown = text(reader)
    assert "No job ran within the last 24 hours." in shown
    assert '<tr class="idle">' in shown
    assert "Nothing runs." in shown


def test_what_comes_is_named_soonest_first_and_not_on_hold(reader: Client) -> None:
    host = make_host("pi1")
    ensure("Often", {"kind": "host_facts", "hosts": "all"}, every_minutes=1)
    ensure("Night", {"kind": "backup", "host_id": host.pk}, cron="0 3 * * *")
    ensure("Gone", {"kind": "backup", "host_id": host.pk + 999}, cron="0 3 * * *")
    shown = text(reader)
    assert re.search(
        r"Read facts <span class=\"dim\">on</span> all hosts.*Back up <span class=\"dim\">on</span> pi1", shown
    )
    assert shown.count('<span class="what">') == 2
    assert "every day at 03:00 UTC" in shown
    hold()
    assert "Nothing fires while the herd is on hold." in text(reader)


def test_nothing_that_came_from_outside_becomes_markup(reader: Client) -> None:
    host = make_host("pi1", last_error=EVIL, last_error_at=timezone.now())
    failed("backup", host, error=EVIL)
    past("backup_verify", host, ago=timedelta(hours=1), summary=EVIL)
    change(running_on(make_node(), make_job("host_facts", host)), step=EVIL, progress_label=EVIL)
    shown = text(reader)
    assert shown.count("alert(1)") >= 4
    assert "<script>alert" not in shown


def test_every_bar_and_cell_leads_to_its_job(reader: Client) -> None:
    done = past("backup", make_host("pi1"), ago=timedelta(hours=1), summary="3 files")
    job = running_on(make_node(), make_job("backup", make_host("pi2")))
    shown = text(reader)
    assert re.search(
        rf'<a href="/jobs/{done.pk}/" class="ok"><title>Back up: Succeeded, 5 min 00 s. 3 files</title>', shown
    )
    assert re.search(rf'<td class="held" data-label="backup"><a href="/jobs/{job.pk}/"', shown)
