"""What the web pages of every app share: who asks, who may, page and htmx part from one view, refusals in words."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from jobs.models import Door, EngineSettings
from jobs.services import Asker, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.forms import BaseForm
    from django.http import HttpRequest, HttpResponse

    from jobs.services import Requested

P = ParamSpec("P")
MAY_RUN = "jobs.add_job"
READS_ONLY = "Your account may look but not change anything: ask an administrator for the right to run jobs."


def may_run(request: HttpRequest) -> bool:
    """True when the person behind the request may start, stop and change things."""
    return request.user.has_perm(MAY_RUN)


def changes(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Guard of every view that changes something: POST only, and only for those who may run jobs."""

    @require_POST
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not may_run(request):
            raise PermissionDenied(READS_ONLY)
        return view(request, *args, **kwargs)

    return guarded


def asker(request: HttpRequest, door: Door = Door.PAGE) -> Asker:
    """Who asks through a page; an address behind a Unix socket is unknown."""
    return Asker(door, user=request.user, client_ip=request.META.get("REMOTE_ADDR") or None)


def page(request: HttpRequest, name: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """`name`.html, or for htmx the part of it that lives: `name`_part.html."""
    part = "_part" if getattr(request, "htmx", False) else ""
    response = render(request, f"{name}{part}.html", {"may_run": may_run(request), **context}, status=status)
    response["Vary"] = "HX-Request"
    response["Cache-Control"] = "no-store"
    return response


def to_job(request: HttpRequest, ask: Callable[[], Requested], back: str) -> HttpResponse:
    """Ask for a job and go to it; a refusal is said on the page `back`."""
    try:
        answer = ask()
    except Refused as refusal:
        messages.error(request, refusal_words(refusal))
        return redirect(back)
    if answer.attached:
        messages.info(request, f"Job {answer.job.pk} was already doing this; you are looking at it.")
    return redirect("job", answer.job.pk)


def refusal_words(refusal: Refused) -> str:
    """The sentence of a refusal, with a link to the job in the way."""
    if refusal.job is None:
        return str(refusal)
    return format_html(
        '{} <a href="{}">See job {}</a>', str(refusal), reverse("job", args=[refusal.job.pk]), refusal.job.pk
    )


def first_error(form: BaseForm) -> str:
    """The first thing that is wrong with a form."""
    return str(next(iter(form.errors.values()))[0])


def engine(request: HttpRequest) -> dict[str, Any]:
    """Context of every template: the engine's switches, read only where a template shows them."""
    return {"engine": SimpleLazyObject(EngineSettings.load)}
