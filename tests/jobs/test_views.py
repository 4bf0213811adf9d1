"""The pages about jobs, through the whole stack of middleware, as a browser meets them."""

from __future__ import annotations

import gzip
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs import logs
from jobs.models import Door, EngineSettings, Job, JobLine, Status, WaitingOn
from jobs.views import NO_LOG
from piherder.accounts.roles import Role
from tests import people
from tests.factories import change, make_host, make_job, running_on, waiting_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import DjangoAssertNumQueries

    from hosts.models import Host
    from jobs.node import Me

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true"}
QUERIES = 12


@pytest.fixture
def reader() -> Client:
    return people.reader()


@pytest.fixture
def runner() -> Client:
    return people.runner()


def page(client: Client, job: Job, **query: Any) -> str:
    return client.get(reverse("job", args=[job.pk]), query).content.decode()


def part(client: Client, job: Job, **query: Any) -> str:
    return client.get(reverse("job", args=[job.pk]), query, headers=PART).content.decode()


def done(job: Job, status: Status = Status.SUCCEEDED, **fields: Any) -> Job:
    job.lanes.all().delete()
    return change(job, status=status, finished_at=timezone.now(), **fields)


# --- the list


def test_active_jobs_stand_first(reader: Client, host: Host) -> None:
    active = make_job("work", host)
    done(make_job("look", host), summary="It was looked at.")
    shown = reader.get(reverse("jobs")).content.decode()
    assert shown.index(f'/jobs/{active.pk}/"') < shown.index("Ended") < shown.index("It was looked at.")


def test_the_list_is_polled_only_while_something_is_active(reader: Client, host: Host) -> None:
    job = make_job("work", host)
    assert "hx-trigger" in reader.get(reverse("jobs")).content.decode()
    done(job)
    assert "hx-trigger" not in reader.get(reverse("jobs"), headers=PART).content.decode()


@pytest.mark.parametrize(
    ("query", "hits"),
    [
        ({"kind": "work"}, 1),
        ({"kind": "look"}, 2),
        ({"status": "active"}, 1),
        ({"status": "failed"}, 1),
        ({"kind": "nonsense", "status": "bad", "before": "x"}, 3),
    ],
)
def test_filters(reader: Client, host: Host, query: dict[str, str], hits: int) -> None:
    make_job("work", host)
    done(make_job("look", host))
    done(make_job("look", host), Status.FAILED, failure="error")
    assert reader.get(reverse("jobs"), query).content.decode().count('class="what"') == hits


def test_filter_by_host_and_polling_keeps_it(reader: Client, host: Host) -> None:
    make_job("work", host)
    make_job("work", make_host())
    shown = reader.get(reverse("jobs"), {"host": host.pk}).content.decode()
    assert shown.count('class="what"') == 1
    assert f'hx-get="/jobs/?host={host.pk}"' in shown


def test_older_jobs_are_a_page_away(reader: Client) -> None:
    ended = [done(make_job("loose")) for _ in range(51)]
    first = reader.get(reverse("jobs"), {"kind": "loose"}).content.decode()
    assert f"?kind=loose&amp;before={ended[1].pk}" in first
    older = reader.get(f"/jobs/?kind=loose&before={ended[1].pk}").content.decode()
    assert older.count('class="what"') == 1


def test_an_empty_list_says_the_next_step(reader: Client) -> None:
    assert "No job has run yet" in reader.get(reverse("jobs")).content.decode()
    assert "No job fits" in reader.get(reverse("jobs"), {"status": "failed"}).content.decode()


def test_the_list_costs_the_same_with_many_rows(
    reader: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(30):
        make_job("work", make_host())
        done(make_job("look", make_host()))
    with django_assert_max_num_queries(QUERIES):
        reader.get(reverse("jobs"))


def test_evidence_of_a_failure_is_shown(reader: Client, host: Host) -> None:
    done(make_job("work", host), Status.FAILED, error="The worker went silent.", failure="worker_lost")
    assert "The worker went silent." in reader.get(reverse("jobs")).content.decode()


# --- one job


def test_a_queued_job_is_not_claimed(reader: Client, host: Host) -> None:
    shown = page(reader, make_job("work", host))
    assert "Queued" in shown
    assert "not claimed" in shown


def test_a_waiting_job_says_why_and_when_it_is_looked_at(reader: Client, host: Host) -> None:
    soon = timezone.now() + timedelta(seconds=25)
    job = waiting_on(WaitingOn.HOST, make_job("work", host), waiting_why="pi does not answer.", next_probe_at=soon)
    shown = page(reader, job)
    assert "Waiting on host" in shown
    assert "pi does not answer; next probe in 2" in shown


def test_a_running_job_shows_node_and_progress(reader: Client, host: Host, me: Me) -> None:
    job = running_on(me, make_job("work", host))
    change(job, progress_done=63, progress_total=100, progress_label="4 MB/s", step="copy")
    shown = page(reader, job)
    assert me.name in shown
    assert "copy: 63 %, 4 MB/s" in shown
    assert 'width="63"' in shown


def test_polling_ends_with_the_job(reader: Client, host: Host) -> None:
    job = make_job("work", host)
    assert "hx-get" in part(reader, job)
    assert "hx-get" not in part(reader, done(job))
    assert "http-equiv" not in page(reader, job)


def test_page_and_part_are_one_view(reader: Client, host: Host) -> None:
    job = make_job("work", host)
    assert "<html" in page(reader, job)
    assert "<html" not in part(reader, job)


def test_a_part_brings_only_new_lines(reader: Client, host: Host) -> None:
    job = make_job("work", host)
    for number in (1, 2, 3):
        JobLine.objects.create(job=job, number=number, text=f"line {number}")
    shown = part(reader, change(job, log_lines=3), after=2)
    assert "line 3" in shown
    assert "line 2" not in shown
    assert "?after=3" in shown


@pytest.mark.parametrize("after", ["-1", "x", "1" * 30, "²", ""])
def test_an_odd_place_in_the_log_is_the_beginning(reader: Client, host: Host, after: str) -> None:
    job = make_job("work", host)
    JobLine.objects.create(job=job, number=1, text="line 1")
    assert "line 1" in part(reader, change(job, log_lines=1), after=after)


# case G14
def test_markup_from_a_host_is_shown_as_text(reader: Client, host: Host) -> None:
    evil = "<script>alert(1)</script>"
    job = done(make_job("work", host), summary=evil, step=evil, node=evil, result={"x": evil})
    JobLine.objects.create(job=job, number=1, text=evil)
    assert evil not in page(reader, job)
    assert "&lt;script&gt;" in page(reader, job)


def test_a_kind_that_is_gone_keeps_its_name(reader: Client, host: Host) -> None:
    job = done(change(make_job("work", host), kind="vanished"))
    assert "vanished" in page(reader, job)


def test_an_unknown_job_is_not_found(reader: Client) -> None:
    assert reader.get("/jobs/999999/").status_code == 404


# --- the whole log


def download(client: Client, job: Job) -> bytes:
    return b"".join(client.get(reverse("job_log", args=[job.pk])).streaming_content)  # type: ignore[attr-defined]  # a streaming response


def test_the_whole_log_of_an_ended_job(reader: Client, host: Host) -> None:
    job = make_job("work", host)
    packed = logs.path_of(job.pk).with_suffix(".log.gz")
    packed.parent.mkdir(parents=True)
    packed.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert download(reader, job) == b"one\ntwo\n"


def test_a_log_is_a_download_and_plain_text(reader: Client, host: Host) -> None:
    response = reader.get(reverse("job_log", args=[make_job("work", host).pk]))
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert "attachment" in response["Content-Disposition"]
    assert response["X-Content-Type-Options"] == "nosniff"


def test_a_log_that_is_not_kept_says_so(reader: Client, host: Host) -> None:
    assert download(reader, make_job("work", host)) == NO_LOG.encode()


# --- buttons


def test_cancel_ends_a_pending_job(runner: Client, host: Host) -> None:
    job = make_job("work", host)
    shown = runner.post(reverse("cancel_job", args=[job.pk]), follow=True).content.decode()
    job.refresh_from_db()
    assert job.status == Status.CANCELLED
    assert f"Job {job.pk} is cancelled" in shown


def test_cancel_of_an_ended_job_is_refused_in_words(runner: Client, host: Host) -> None:
    job = done(make_job("work", host))
    shown = runner.post(reverse("cancel_job", args=[job.pk]), follow=True).content.decode()
    assert "there is nothing to cancel" in shown


def test_run_again_leads_to_a_new_job_and_writes_down_who(runner: Client, host: Host) -> None:
    old = done(make_job("work", host, {"tag": "a"}))
    response = runner.post(reverse("job_again", args=[old.pk]), REMOTE_ADDR="192.0.2.9")
    new = Job.objects.get(status=Status.PENDING)
    assert response["Location"] == reverse("job", args=[new.pk])
    assert (new.params, new.door, new.requested_name, new.client_ip) == ({"tag": "a"}, Door.PAGE, "runner", "192.0.2.9")


def test_run_again_attaches_to_the_same_work(runner: Client, host: Host) -> None:
    old = done(make_job("work", host))
    there = make_job("work", host, {"tag": ""})
    response = runner.post(reverse("job_again", args=[old.pk]), follow=True)
    assert response.redirect_chain == [(reverse("job", args=[there.pk]), 302)]
    assert "was already doing this" in response.content.decode()


def test_run_again_is_refused_with_the_job_in_the_way(runner: Client, host: Host) -> None:
    old = done(make_job("work", host))
    busy = make_job("wide", host)
    shown = runner.post(reverse("job_again", args=[old.pk]), follow=True).content.decode()
    assert f'<a href="/jobs/{busy.pk}/">See job {busy.pk}</a>' in shown


def test_hold_and_release(runner: Client, reader: Client) -> None:
    runner.post(reverse("hold"), {"reason": "moving <the> rack"})
    assert EngineSettings.load().held_by == "runner"
    banner = reader.get(reverse("jobs")).content.decode()
    assert "The herd is on hold" in banner
    assert "moving &lt;the&gt; rack" in banner
    runner.post(reverse("release"))
    assert "on hold" not in reader.get(reverse("jobs")).content.decode()


def test_only_who_may_release_sees_the_button(runner: Client, reader: Client) -> None:
    runner.post(reverse("hold"))
    assert "Release" in runner.get(reverse("jobs")).content.decode()
    assert "Release" not in reader.get(reverse("jobs")).content.decode()


CHANGES: list[Callable[[int], str]] = [
    lambda pk: reverse("cancel_job", args=[pk]),
    lambda pk: reverse("job_again", args=[pk]),
    lambda pk: reverse("hold"),
    lambda pk: reverse("release"),
]


@pytest.mark.parametrize("address", CHANGES)
def test_a_reader_changes_nothing(reader: Client, host: Host, address: Callable[[int], str]) -> None:
    job = make_job("work", host)
    response = reader.post(address(job.pk))
    job.refresh_from_db()
    assert response.status_code == 403
    assert "may look but not change" in response.content.decode()
    assert (job.status, Job.objects.count(), EngineSettings.load().held) == (Status.PENDING, 1, False)


@pytest.mark.parametrize("address", CHANGES)
def test_a_link_changes_nothing(runner: Client, host: Host, address: Callable[[int], str]) -> None:
    job = make_job("work", host)
    assert runner.get(address(job.pk)).status_code == 405
    assert Job.objects.get().status == Status.PENDING


@pytest.mark.parametrize("address", CHANGES)
def test_a_foreign_form_changes_nothing(host: Host, address: Callable[[int], str]) -> None:
    job = make_job("work", host)
    response = people.signed_in("lured", Role.OPERATOR, strict=True).post(address(job.pk))
    assert response.status_code == 403
    assert "is no longer valid" in response.content.decode()
    assert Job.objects.get().status == Status.PENDING


def test_a_reader_sees_no_buttons(reader: Client, host: Host) -> None:
    assert "Cancel</button>" not in page(reader, make_job("work", host))
