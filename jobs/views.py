"""Jobs: the list, one job live, its whole log, Cancel, Run again, and the switch that holds the herd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from jobs import logs
from jobs.filters import JobFilter, job_page
from jobs.forms import HoldForm
from jobs.in_place import live, to_job
from jobs.models import Job
from jobs.pages import asker, changes, first_error, is_part, number, page
from jobs.services import Refused, hold, release, request_cancel, run_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest, HttpResponse

NO_LOG = "Nothing is kept of this job's log.\n"


@require_safe
def jobs(request: HttpRequest) -> HttpResponse:
    """The list; its part is asked for again while anything on it is active."""
    form = JobFilter(request.GET)
    return page(request, "jobs/jobs", {"form": form, "jobs": job_page(form.wanted())})


@require_safe
def job(request: HttpRequest, pk: int) -> HttpResponse:
    """One job; its part is asked for again until the job has ended, each time with the lines that are new."""
    found = get_object_or_404(Job.objects.select_related("host"), pk=pk)
    shown = live(found, number(request.GET.get("after", "")))
    return page(request, "jobs/job", {**shown, "in_place": "in_place" in request.GET})


@require_safe
def job_log(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    """The whole log as a file, read while it is sent."""
    get_object_or_404(Job, pk=pk)
    response = StreamingHttpResponse(whole_log(pk), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="job-{pk}.log"'
    return response


def whole_log(pk: int) -> Iterator[str]:
    """Every line of a job's log, or one that says that there is none."""
    lines = logs.read(pk)
    yield next(lines, NO_LOG)
    yield from lines


@changes
def cancel_job(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for a job's end."""
    found = get_object_or_404(Job.objects.select_related("host"), pk=pk)
    try:
        said, words = messages.info, request_cancel(found, asker=asker(request))
    except Refused as refusal:
        said, words = messages.error, str(refusal)
    if is_part(request):
        found.refresh_from_db()
        return page(request, "jobs/job", {**live(found), "in_place": True})
    said(request, words)
    return redirect("job", pk)


@changes
def job_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for the same work anew and show the new job."""
    found = get_object_or_404(Job, pk=pk)
    return to_job(request, lambda: run_again(found, asker=asker(request)), reverse("job", args=[pk]))


@changes
def hold_herd(request: HttpRequest) -> HttpResponse:
    """Nothing new starts from now on."""
    form = HoldForm(request.POST)
    if not form.is_valid():
        messages.error(request, first_error(form))
        return redirect("jobs")
    hold(form.cleaned_data["reason"], asker=asker(request))
    messages.info(request, "The herd is on hold: nothing new starts, what runs ends by itself.")
    return redirect("jobs")


@changes
def release_herd(request: HttpRequest) -> HttpResponse:
    """Work starts again."""
    waiting = release()
    messages.success(request, f"The herd is released; {waiting or 'no'} waiting job{'' if waiting == 1 else 's'}.")
    return redirect("jobs")
