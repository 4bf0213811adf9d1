"""What the web pages of every app share: who asks, who may, page and htmx part from one view."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from django.core.exceptions import PermissionDenied
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_POST

from jobs.models import Door, EngineSettings
from jobs.services import Asker

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.forms import BaseForm
    from django.http import HttpRequest, HttpResponse

P = ParamSpec("P")
DIGITS = 18  # of the longest number that every database holds as a key
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


def is_part(request: HttpRequest) -> bool:
    """Whether a page that is open asks, and not a person for a whole one."""
    return bool(getattr(request, "htmx", False))


def unkept(response: HttpResponse) -> HttpResponse:
    """The response, which no cache keeps."""
    response["Cache-Control"] = "no-store"
    return response


def page(request: HttpRequest, name: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """`name`.html, or for htmx the part of it that lives: `name`_part.html."""
    part = "_part" if is_part(request) else ""
    response = render(request, f"{name}{part}.html", {"may_run": may_run(request), **context}, status=status)
    response["Vary"] = "HX-Request"
    return unkept(response)


def number(text: str) -> int:
    """A whole number of an address, 0 for anything that no row can have."""
    return int(text) if text.isdecimal() and len(text) < DIGITS else 0


def first_error(form: BaseForm) -> str:
    """The first thing that is wrong with a form."""
    return str(next(iter(form.errors.values()))[0])


def engine(request: HttpRequest) -> dict[str, Any]:
    """Context of every template: the engine's switches, read only where a template shows them."""
    return {"engine": SimpleLazyObject(EngineSettings.load)}
