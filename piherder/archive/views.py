"""The page of the herder's own backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import reverse
from django.views.decorators.http import require_safe

from jobs.in_place import to_job
from jobs.models import ACTIVE, Job
from jobs.pages import asker, changes, page
from jobs.services import request_job
from piherder.archive.overview import KIND, overview

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


@require_safe
def herder_backups(request: HttpRequest) -> HttpResponse:
    """The archives; its part is asked for again while one is being made."""
    active = Job.objects.filter(kind=KIND, status__in=ACTIVE).first()
    return page(request, "herder/backups", {"overview": overview(), "active": active})


@changes
def back_up_herder(request: HttpRequest) -> HttpResponse:
    """Ask for an archive now; the job is shown live."""
    return to_job(request, lambda: request_job(KIND, asker=asker(request)), reverse("herder_backups"))
