"""One generation: what it holds, keeping it for ever, restoring it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from hosts.enrol import EnrolRefused
from hosts.forms import KeepForm, RestoreForm
from hosts.models import Generation, GenerationStatus
from hosts.shelf import folder, keep, let_go
from jobs.in_place import refuse, to_job
from jobs.pages import asker, changes, first_error, may_run, page
from jobs.services import request_job

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def _find(name: str, pk: int) -> Generation:
    rows = Generation.objects.select_related("source__host", "root", "job")
    return get_object_or_404(rows, pk=pk, source__host__name=name, status=GenerationStatus.GOOD)


@require_safe
def generation(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Its figures, one folder of it (names are for those who may restore), and the form that brings it back."""
    found = _find(name, pk)
    path = request.GET.get("path", "")
    context = {"generation": found, "source": found.source, "host": found.source.host}
    wanted = request.GET.get("file", path).strip("/")
    form = RestoreForm(initial={"host": found.source.host, "path": wanted})
    here = folder(found, path) if may_run(request) else None
    return page(request, "hosts/generation", {**context, "folder": here, "form": form})


@changes
def restore(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Ask for a restore, or its dry run; the job is shown live."""
    found = _find(name, pk)
    back = reverse("generation", args=[name, pk])
    form = RestoreForm(request.POST)
    if not form.is_valid():
        return refuse(request, first_error(form), back)
    goal, params = form.cleaned_data["host"].pk, form.params(found)
    return to_job(request, lambda: request_job("restore", goal, params, asker=asker(request)), back)


@changes
def keep_generation(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Keep it for ever."""
    found = _find(name, pk)
    form = KeepForm(request.POST)
    if not form.is_valid():
        messages.error(request, first_error(form))
        return redirect("generation", name, pk)
    try:
        keep(found, form.cleaned_data["note"])
    except EnrolRefused as refusal:
        return _gone(request, name, refusal)
    messages.success(request, f"Generation {found.sequence} is kept for ever.")
    return redirect("generation", name, pk)


@changes
def let_generation_go(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Leave it to the host's rule again."""
    found = _find(name, pk)
    try:
        let_go(found)
    except EnrolRefused as refusal:
        return _gone(request, name, refusal)
    messages.info(request, f"Generation {found.sequence} is no longer kept for ever.")
    return redirect("generation", name, pk)


def _gone(request: HttpRequest, name: str, refusal: EnrolRefused) -> HttpResponse:
    """To the host's page: the generation's own is no more."""
    messages.error(request, str(refusal))
    return redirect("host", name)
