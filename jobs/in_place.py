"""A job live on the page whose button started it: shown in place, kept over a reload by `?job=` in the address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.contrib import messages
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html

from jobs.log_view import look, steps
from jobs.models import Job
from jobs.pages import is_part, may_run, number, unkept
from jobs.rules import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

    from jobs.services import Requested

JOB = "job"  # the name in the address


def to_job(request: HttpRequest, ask: Callable[[], Requested], back: str) -> HttpResponse:
    """Ask for a job and show it live on the page it was asked from; without script, go to it.

    A refusal is said there, or on the page `back`.
    """
    try:
        answer = ask()
    except Refused as refusal:
        return refuse(request, refusal_words(refusal), back)
    words = f"Job {answer.job.pk} was already doing this; you are looking at it." if answer.attached else ""
    if is_part(request):
        return _shown(request, answer.job, words)
    if words:
        messages.info(request, words)
    return redirect("job", answer.job.pk)


def refuse(request: HttpRequest, words: str, back: str) -> HttpResponse:
    """Say why nothing was started: in place, or on the page `back`."""
    if is_part(request):
        return unkept(render(request, "jobs/in_place.html", {"refusal": words, "close": address(request, None)}))
    messages.error(request, words)
    return redirect(back)


def refusal_words(refusal: Refused) -> str:
    """The sentence of a refusal, with a link to the job in the way."""
    if refusal.job is None:
        return str(refusal)
    return format_html(
        '{} <a href="{}">See job {}</a>', str(refusal), reverse("job", args=[refusal.job.pk]), refusal.job.pk
    )


def _shown(request: HttpRequest, job: Job, words: str) -> HttpResponse:
    context = {**live(job), "words": words, "may_run": may_run(request), "close": address(request, None)}
    response = unkept(render(request, "jobs/in_place.html", context))
    response["HX-Replace-Url"] = address(request, job)
    response["HX-Trigger-After-Settle"] = "job"  # parts of the page that show jobs ask anew
    return response


def live(job: Job, after: int = 0) -> dict[str, Any]:
    """What the live view of a job shows; its log from the line behind `after` on."""
    return {"job": job, "log": look(job, after), "events": job.events.all(), "steps": steps(job)}


def kept(request: HttpRequest) -> dict[str, Any]:
    """The job that the address of a page names, as a page loaded anew shows it; nothing for an unknown one."""
    pk = number(request.GET.get(JOB, ""))
    job = Job.objects.select_related("host").filter(pk=pk).first() if pk else None
    return {**live(job), "close": without(request.get_full_path())} if job else {}


def address(request: HttpRequest, job: Job | None) -> str:
    """The address of the page that the request came from, naming this job or none; its path and query alone."""
    there = without(getattr(getattr(request, "htmx", None), "current_url_abs_path", None) or reverse("start"))
    if job is None:
        return there
    return f"{there}{'&' if '?' in there else '?'}{urlencode({JOB: job.pk})}"


def without(path: str) -> str:
    """A path with its query, but for the job in it."""
    parts = urlsplit(path)
    query = urlencode([pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != JOB])
    return f"{parts.path}?{query}" if query else parts.path
