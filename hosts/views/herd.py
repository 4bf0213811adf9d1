"""The list of hosts, and one kind of work on several of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from hosts.forms import HerdRunForm
from hosts.glance import glances
from jobs.in_place import refusal_words
from jobs.pages import asker, changes, first_error, page
from jobs.services import Refused, request_job

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from hosts.models import Host


@require_safe
def hosts(request: HttpRequest) -> HttpResponse:
    """Every host at a glance; its part is asked for again while one of them has work."""
    rows = glances()
    is_busy = any(row.active for row in rows)
    return page(request, "hosts/hosts", {"rows": rows, "is_busy": is_busy, "form": HerdRunForm()})


@changes
def run_on_herd(request: HttpRequest) -> HttpResponse:
    """One kind on the chosen hosts; each host has its own answer."""
    form = HerdRunForm(request.POST)
    if not form.is_valid():
        messages.error(request, first_error(form))
        return redirect("hosts")
    for host in form.cleaned_data["hosts"]:
        answer(request, form.cleaned_data["kind"], host)
    return redirect("hosts")


def answer(request: HttpRequest, kind: str, host: Host) -> None:
    """Ask for work on one host and say what came of it."""
    try:
        found = request_job(kind, host.pk, asker=asker(request))
    except Refused as refusal:
        messages.error(request, format_html("{}: refused. {}", host.name, refusal_words(refusal)))
        return
    verb = "attached to" if found.attached else "started"
    link = reverse("job", args=[found.job.pk])
    messages.success(request, format_html('{}: {} <a href="{}">job {}</a>.', host.name, verb, link, found.job.pk))
