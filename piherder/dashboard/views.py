"""The first page, and the cheap question whether anything on it has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from hosts.glance import glances_with
from hosts.standing import scheduled
from jobs.models import EngineSettings
from jobs.pages import is_part, page, unkept
from piherder.dashboard import seen
from piherder.dashboard.board import board
from piherder.dashboard.coming import coming
from piherder.dashboard.day import day
from piherder.dashboard.needs import needs
from piherder.dashboard.recent import recent

if TYPE_CHECKING:
    from django.http import HttpRequest

MOST = 20  # running jobs
BUSY, QUIET = 5, 15  # seconds between two questions of an open page

_drawn: dict[str, bytes] = {}  # the part that lives as it was drawn last, by what it shows; everyone sees the same


@require_safe
def dashboard(request: HttpRequest) -> HttpResponse:
    """All of it; to an open page, which says what it has seen, nothing at all while nothing has changed."""
    if not is_part(request):
        return page(request, "dashboard/dashboard", everything())
    now = seen.now()
    if request.GET.get("seen") == now:
        return unkept(HttpResponse(status=204))
    if known := _drawn.get(now):
        return unkept(HttpResponse(known))
    shown = everything()
    response = page(request, "dashboard/dashboard", shown)
    _drawn.clear()
    _drawn[shown["seen"]] = response.content
    return response


def everything() -> dict[str, Any]:
    """What the page shows; seven queries, however large the herd."""
    found, engine = recent(), EngineSettings.load()
    hosts, schedules = glances_with(found.active), list(scheduled())
    return {
        "engine": engine,
        "seen": seen.of(found, hosts, engine),
        "pause": BUSY if found.active else QUIET,
        "has_hosts": bool(hosts),
        "needs": needs(hosts, found, schedules, held=engine.held),
        "active": found.active[:MOST],
        "more_active": max(0, len(found.active) - MOST),
        "coming": coming(schedules, hosts, found.now),
        "board": board(hosts, found),
        "day": day(found),
    }
