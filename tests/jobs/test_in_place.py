"""A job live on the page whose button started it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse

from jobs import in_place
from jobs.in_place import without
from jobs.models import Job, JobLine, Status
from tests import people
from tests.factories import change, make_job, make_node, running_on

if TYPE_CHECKING:
    from django.http import HttpResponse
    from django.test import Client

    from hosts.models import Host

pytestmark = pytest.mark.django_db
SITE = "http://testserver"


@pytest.fixture
def runner() -> Client:
    return people.runner()


def again(client: Client, job: Job, page: str = "/hosts/pi/") -> HttpResponse:
    """Press "Run again" of a job that is shown on another page."""
    headers = {"HX-Request": "true", "HX-Current-URL": SITE + page}
    return client.post(reverse("job_again", args=[job.pk]), headers=headers)  # type: ignore[return-value]


def ended(host: Host) -> Job:
    job = make_job("work", host, {"tag": "a"})
    job.lanes.all().delete()
    return change(job, status=Status.FAILED, finished_at=job.created_at)


def text(response: HttpResponse) -> str:
    assert response.status_code == 200
    return response.content.decode()


def test_a_button_shows_its_job_where_it_was_pressed(runner: Client, host: Host) -> None:
    response = again(runner, ended(host))
    job = Job.objects.first()
    assert job
    shown = text(response)
    assert shown.startswith('<div id="in-place"><section')
    assert f'hx-get="/jobs/{job.pk}/?after=0&amp;in_place"' in shown
    assert "already doing this" not in shown
    assert response["HX-Replace-Url"] == f"/hosts/pi/?job={job.pk}"
    assert response["HX-Trigger-After-Settle"] == "job"
    assert response["Cache-Control"] == "no-store"


def test_the_second_press_attaches_and_says_so(runner: Client, host: Host) -> None:
    old = ended(host)
    again(runner, old)
    first = Job.objects.first()
    assert first
    assert f"Job {first.pk} was already doing this; you are looking at it." in text(again(runner, old))
    assert Job.objects.count() == 2


def test_a_refusal_is_said_in_place_with_the_job_in_the_way(runner: Client, host: Host) -> None:
    old = ended(host)
    busy = make_job("wide", host)
    response = again(runner, old)
    assert 'class="alarm" role="alert"' in text(response)
    assert f'<a href="/jobs/{busy.pk}/">See job {busy.pk}</a>' in text(response)
    assert "HX-Replace-Url" not in response


def test_a_form_that_is_wrong_is_refused_in_place(runner: Client, host: Host) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": f"{SITE}/hosts/{host.name}/"}
    response = runner.post(reverse("run_on_host", args=[host.name]), {"kind": "odd"}, headers=headers)
    assert 'class="alarm"' in text(response)  # type: ignore[arg-type]


def test_no_message_is_left_for_a_later_page(runner: Client, host: Host) -> None:
    old = ended(host)
    for _ in range(2):
        again(runner, old)
    make_job("look", host)
    assert '<ul class="messages"' not in runner.get(reverse("jobs")).content.decode()


def test_a_page_loaded_anew_shows_it_still(runner: Client, host: Host) -> None:
    job = running_on(make_node(), make_job("work", host))
    JobLine.objects.create(job=job, number=1, text="line <1>")
    shown = runner.get(f"/jobs/?kind=work&job={job.pk}").content.decode()
    assert f'hx-get="/jobs/{job.pk}/?after=' in shown
    assert "line &lt;1&gt;" in shown
    assert '<a href="/jobs/?kind=work">Close</a>' in shown


@pytest.mark.parametrize("number", ["999999", "x", "-1", "1" * 40, "²", "", "1%00"])
def test_an_odd_number_in_the_address_shows_nothing(runner: Client, host: Host, number: str) -> None:
    make_job("work", host)
    assert '<div id="in-place"></div>' in runner.get(f"/jobs/?job={number}").content.decode()


def test_it_is_cancelled_and_repeated_where_it_is(runner: Client, host: Host) -> None:
    job = make_job("work", host)
    response = runner.post(reverse("cancel_job", args=[job.pk]), headers={"HX-Request": "true"})
    shown = response.content.decode()
    assert re.match(r'\s*<div id="now">', shown)
    assert "Cancelled" in shown
    assert f'hx-post="/jobs/{job.pk}/again/" hx-target="#in-place"' in shown
    assert '<ul class="messages"' not in runner.get(reverse("jobs")).content.decode()


def test_on_its_own_page_its_buttons_lead_to_pages(runner: Client, host: Host) -> None:
    shown = runner.get(reverse("job", args=[ended(host).pk])).content.decode()
    assert 'action="/jobs/' in shown
    assert "hx-post" not in shown


def test_a_reader_sees_it_without_buttons(host: Host) -> None:
    job = make_job("work", host)
    shown = people.reader().get(f"/jobs/?job={job.pk}").content.decode()
    assert f'hx-get="/jobs/{job.pk}/?after=' in shown
    assert "Cancel</button>" not in shown


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/hosts/?job=3", "/hosts/"),
        ("/hosts/?a=1&job=3&b=", "/hosts/?a=1&b="),
        ("/hosts/?job=3&job=4", "/hosts/"),
        ("/hosts/", "/hosts/"),
    ],
)
def test_an_address_without_its_job(path: str, left: str) -> None:
    assert without(path) == left


@pytest.mark.parametrize("odd", ["http://elsewhere.example/x", "javascript:alert(1)", "//elsewhere.example/", ""])
def test_a_foreign_address_leads_home(runner: Client, host: Host, odd: str) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": odd}
    response = runner.post(reverse("job_again", args=[ended(host).pk]), headers=headers)
    assert re.fullmatch(r"/\?job=\d+", response["HX-Replace-Url"])
    assert in_place.JOB == "job"
