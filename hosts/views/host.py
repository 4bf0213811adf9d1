"""One host: facts, disks, sources with their generations, jobs, and the buttons that start work or pause it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import Http404
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from hosts.described import described
from hosts.enrol import pause, resume
from hosts.forms import PauseForm, RunForm, host_kinds
from hosts.glance import glances
from hosts.models import Host
from hosts.shelf import shelves
from jobs.in_place import refuse, to_job
from jobs.models import Job
from jobs.pages import asker, changes, first_error, page
from jobs.services import request_job

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

RECENT = 8  # jobs on the page


@require_safe
def host(request: HttpRequest, name: str) -> HttpResponse:
    """Everything about one host; its part is asked for again while it has work."""
    found = next(iter(glances(name=name)), None)
    if found is None:
        raise Http404(f"There is no host called {name}.")
    jobs = Job.objects.filter(host=found.host).defer("result", "params")[:RECENT]
    context = {"glance": found, "host": found.host, "facts": described(found.facts), "shelves": shelves(found.host)}
    forms = {"jobs": jobs, "kinds": host_kinds()[1:], "pause_form": PauseForm()}
    return page(request, "hosts/host", {**context, **forms})


@changes
def run_on_host(request: HttpRequest, name: str) -> HttpResponse:
    """One kind of work on this host; the job is shown live."""
    found = get_object_or_404(Host.herd, name=name)
    form = RunForm(request.POST)
    back = reverse("host", args=[name])
    if not form.is_valid():
        return refuse(request, first_error(form), back)
    return to_job(request, lambda: request_job(form.cleaned_data["kind"], found.pk, asker=asker(request)), back)


@changes
def pause_host(request: HttpRequest, name: str) -> HttpResponse:
    """Nothing new starts on this host."""
    found = get_object_or_404(Host.herd, name=name)
    form = PauseForm(request.POST)
    if not form.is_valid():
        messages.error(request, first_error(form))
        return redirect("host", name)
    pause(found, form.cleaned_data["reason"], form.until())
    messages.info(request, f"{name} is paused: nothing new starts on it.")
    return redirect("host", name)


@changes
def resume_host(request: HttpRequest, name: str) -> HttpResponse:
    """Work may start on this host again."""
    resume(get_object_or_404(Host.herd, name=name))
    messages.success(request, f"{name} is looked after again.")
    return redirect("host", name)
