"""The engine in the Django admin: rows to read, with Cancel and Run again; two settings to edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import admin, messages
from django.utils.html import format_html

from jobs.in_place import refusal_words
from jobs.models import BeatLease, Door, EngineSettings, Job, JobEvent, Lane, ScheduleFire, WorkerNode
from jobs.pages import MAY_RUN, asker
from jobs.services import Refused, request_cancel, run_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Model, QuerySet
    from django.forms import ModelForm
    from django.http import HttpRequest

    from jobs.services import Requested

    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
else:
    ModelAdmin, TabularInline = admin.ModelAdmin, admin.TabularInline


class ReadOnly:
    """Rows that are looked at: no door but the engine writes them."""

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False


class EventInline(ReadOnly, TabularInline):
    """The job's transitions."""

    model = JobEvent
    fields = ("at", "name", "text", "node")
    extra = 0


@admin.register(Job)
class JobAdmin(ReadOnly, ModelAdmin):
    """Jobs to read; the two verbs as actions."""

    list_display = ("id", "kind", "host", "state", "node_words", "created_at", "duration", "evidence")
    list_filter = ("status", "waiting_on", "kind", "door", "failure", "host")
    list_select_related = ("host",)
    search_fields = ("=id", "kind", "host__name", "summary", "error")
    date_hierarchy = "created_at"
    inlines = (EventInline,)
    actions = ("cancel", "again")
    show_full_result_count = False
    list_per_page = 50

    def has_run_permission(self, request: HttpRequest) -> bool:
        """What the two actions need."""
        return request.user.has_perm(MAY_RUN)

    @admin.display(description="State", ordering="status")
    def state(self, job: Job) -> str:
        """In words."""
        return job.state_words

    @admin.display(description="Node", ordering="node")
    def node_words(self, job: Job) -> str:
        """Which worker has it."""
        return job.node or "not claimed"

    @admin.action(description="Cancel the chosen jobs", permissions=["run"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Ask for the end of each."""
        who = asker(request, Door.ADMIN)
        each_says(request, queryset, lambda job: request_cancel(job, asker=who))

    @admin.action(description="Run the chosen jobs again", permissions=["run"])
    def again(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Ask for the same work anew."""
        who = asker(request, Door.ADMIN)
        each_says(request, queryset, lambda job: _anew(job, run_again(job, asker=who)))


def _anew(old: Job, found: Requested) -> str:
    if found.attached:
        return f"Job {found.job.pk} was already doing this."
    return f"Job {old.pk} runs again as job {found.job.pk}."


def each_says(request: HttpRequest, jobs: QuerySet[Job], act: Callable[[Job], str]) -> None:
    """Act on each job; what came of it, or why not, becomes a message."""
    for job in jobs.select_related("host").order_by("pk"):
        try:
            messages.success(request, act(job))
        except Refused as refusal:
            messages.error(request, format_html("Job {}: {}", job.pk, refusal_words(refusal)))


@admin.register(Lane)
class LaneAdmin(ReadOnly, ModelAdmin):
    """Who holds what."""

    list_display = ("name", "host", "job", "created_at")
    list_filter = ("name", "host")
    list_select_related = ("host", "job")


@admin.register(WorkerNode)
class NodeAdmin(ReadOnly, ModelAdmin):
    """Workers, alive and dead."""

    list_display = (
        "name",
        "machine",
        "pid",
        "slots",
        "queues",
        "beats",
        "started_at",
        "drain_at",
        "dead_at",
        "dead_why",
    )
    list_filter = ("machine",)


@admin.register(BeatLease)
class LeaseAdmin(ReadOnly, ModelAdmin):
    """Which beat fires the schedules."""

    list_display = ("name", "holder", "counter", "renewed_at")


@admin.register(ScheduleFire)
class FireAdmin(ReadOnly, ModelAdmin):
    """What schedules did."""

    list_display = ("schedule", "due_at", "fired_at", "started", "skipped", "text")
    list_filter = ("schedule",)
    list_select_related = ("schedule",)
    date_hierarchy = "due_at"
    show_full_result_count = False


@admin.register(EngineSettings)
class SettingsAdmin(ModelAdmin):
    """General → Jobs. The hold is set on the pages, so that it names who held the herd."""

    fields = ("host_wait_sec", "keep_job_days", "held_at", "held_by", "hold_reason")
    list_display = ("__str__", "host_wait_sec", "keep_job_days", "held_at")

    def get_readonly_fields(self, request: HttpRequest, obj: EngineSettings | None = None) -> tuple[str, ...]:
        """The hold, and the wait when the environment sets it."""
        held = ("held_at", "held_by", "hold_reason")
        return (*held, "host_wait_sec") if _locked() else held

    def get_form(
        self, request: HttpRequest, obj: EngineSettings | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm[Any]]:
        """With words at the field that is locked."""
        words = {"host_wait_sec": _locked()} if _locked() else {}
        return super().get_form(request, obj, change=change, help_texts=words, **kwargs)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """There is one row."""
        return not EngineSettings.objects.exists() and super().has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: EngineSettings | None = None) -> bool:
        """The row stays."""
        return False

    def save_model(self, request: HttpRequest, obj: EngineSettings, form: Any, change: bool) -> None:
        """Under its one id."""
        obj.pk = 1
        super().save_model(request, obj, form, change)


def _locked() -> str:
    seconds = settings.PIHERDER_EXCLUSIVE_HOST_WAIT_SEC
    if seconds is None:
        return ""
    return f"PIHERDER_EXCLUSIVE_HOST_WAIT_SEC sets {seconds} s; remove it from the environment to edit this field."
