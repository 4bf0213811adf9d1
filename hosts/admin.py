"""Hosts and what belongs to them in the Django admin. Sealed fields are never shown; new secrets go in by forms."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db import transaction

from hosts.admin_forms import CredentialForm, HostForm, HostKeyForm, RootForm, SourceForm
from hosts.enrol import EnrolRefused, backup_schedule, remove, resume
from hosts.enrol import pause as pause_host
from hosts.models import BackupRoot, Credential, Generation, Host, HostFacts, HostKey, Source
from hosts.root_admin import add_root, make_default, notes
from hosts.store.paths import StoreError
from jobs.admin import ReadOnly

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet
    from django.http import HttpRequest

    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
else:
    ModelAdmin, TabularInline = admin.ModelAdmin, admin.TabularInline


HOOKS = ("before_hook", "after_hook")


class NoDelete:
    """Rows that other rows stand on: they are switched off, not deleted."""

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False


class SourceInline(TabularInline):
    """What is backed up."""

    model = Source
    form = SourceForm
    fields = (
        "path", "allow_system", "excludes", "one_file_system", "shrink_percent", "accept_shrink", "enabled",
        "last_good_at",
    )  # fmt: skip
    readonly_fields = ("last_good_at",)
    extra = 0
    can_delete = False


class HostKeyInline(ReadOnly, TabularInline):
    """What proves the host."""

    model = HostKey
    fields = ("key_type", "fingerprint", "pinned_at", "pinned_by")
    extra = 0


@admin.register(Host)
class HostAdmin(NoDelete, ModelAdmin):
    """Hosts; a host that is removed keeps its row and its generations."""

    form = HostForm
    list_display = ("name", "endpoint", "credential", "jump", "last_seen", "last_backup_at", "paused_at", "removed_at")
    list_filter = (("removed_at", admin.EmptyFieldListFilter), ("paused_at", admin.EmptyFieldListFilter), "backup_root")
    list_select_related = ("credential", "jump")
    search_fields = ("name", "address")
    readonly_fields = (
        "paused_at", "paused_until", "pause_reason", "last_seen", "last_error", "last_error_at", "last_backup_at",
        "created_at", "removed_at",
    )  # fmt: skip
    inlines = (SourceInline, HostKeyInline)
    actions = ("pause", "resume", "remove")
    fieldsets = (
        (None, {"fields": ("name", "address", "port", "user", "credential", "jump", "sudo_password", "forget_sudo")}),
        ("Backup", {"fields": (
            "backup_root", "bandwidth_kib", "backup_limit", "before_hook", "after_hook", "hooks_touch_stacks",
            ("keep_last", "keep_daily", "keep_weekly", "keep_monthly"),
        )}),
        ("Advanced", {"classes": ("collapse",), "fields": ("copy_lock",)}),
        ("State", {"fields": readonly_fields}),
    )  # fmt: skip

    def get_readonly_fields(self, request: HttpRequest, obj: Host | None = None) -> tuple[str, ...]:
        """The name is a folder on the backup disk: it never changes."""
        return (*self.readonly_fields, "name") if obj else self.readonly_fields

    def get_fieldsets(self, request: HttpRequest, obj: Host | None = None) -> Any:
        """Without the commands around a backup for who may only look: people write passwords into them."""
        found = super().get_fieldsets(request, obj)
        if self.has_change_permission(request, obj):
            return found
        return [(title, {**of, "fields": [x for x in of["fields"] if x not in HOOKS]}) for title, of in found]

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """A new host gets its nightly backup like one that was added by the command."""
        super().save_related(request, form, formsets, change)
        if not change:
            backup_schedule(form.instance)

    @admin.action(description="Pause the chosen hosts", permissions=["change"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """Until they are resumed."""
        for host in queryset:
            pause_host(host, f"paused by {request.user.get_username()}")
        messages.success(request, "The chosen hosts are paused: nothing new starts on them.")

    @admin.action(description="Resume the chosen hosts", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """End their pauses."""
        for host in queryset:
            resume(host)
        messages.success(request, "The chosen hosts are looked after again.")

    @admin.action(description="Remove the chosen hosts (their generations stay)", permissions=["change"])
    def remove(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """Let each go, or say why not."""
        for host in queryset.filter(removed_at__isnull=True):
            try:
                remove(host)
            except EnrolRefused as refusal:
                messages.error(request, f"Not removed: {refusal}")
            else:
                messages.success(request, f"The host {host.name} is removed; its generations stay.")


@admin.register(Credential)
class CredentialAdmin(ModelAdmin):
    """Login keys: the public half to copy, the private half only to replace. One in use is protected from deletion."""

    form = CredentialForm
    list_display = ("name", "fingerprint", "created_at")
    fields = ("name", "private_key", "public_key", "fingerprint", "created_at")
    readonly_fields = ("public_key", "fingerprint", "created_at")


@admin.register(HostKey)
class HostKeyAdmin(ModelAdmin):
    """Pinned host keys: added from the line a person compared, or deleted; never changed."""

    form = HostKeyForm
    list_display = ("host", "key_type", "fingerprint", "pinned_at", "pinned_by")
    list_filter = ("host",)
    list_select_related = ("host",)

    def get_fields(self, request: HttpRequest, obj: HostKey | None = None) -> tuple[str, ...]:
        """A line to paste; afterwards what it said."""
        return ("host", "key_type", "fingerprint", "pinned_at", "pinned_by") if obj else ("host", "line")

    def has_change_permission(self, request: HttpRequest, obj: HostKey | None = None) -> bool:
        """A pin is taken away and set anew, so that it says who did it."""
        return False

    def save_model(self, request: HttpRequest, obj: HostKey, form: Any, change: bool) -> None:
        """With the name of who pinned it."""
        obj.pinned_by = request.user.get_username()
        super().save_model(request, obj, form, change)


@admin.register(Source)
class SourceAdmin(NoDelete, ModelAdmin):
    """Sources of all hosts; one that is no longer wanted is switched off."""

    form = SourceForm
    list_display = ("path", "host", "enabled", "last_good_at", "accept_shrink")
    list_filter = ("enabled", "host")
    list_select_related = ("host",)
    search_fields = ("path", "host__name")
    fields = (
        "host", "path", "allow_system", "excludes", "one_file_system", "shrink_percent", "accept_shrink", "enabled",
        "last_good_at",
    )  # fmt: skip
    readonly_fields = ("last_good_at",)

    def get_readonly_fields(self, request: HttpRequest, obj: Source | None = None) -> tuple[str, ...]:
        """Whose it is and where it lies stay: generations stand on them."""
        return (*self.readonly_fields, "host", "path") if obj else self.readonly_fields


@admin.register(BackupRoot)
class RootAdmin(NoDelete, ModelAdmin):
    """Backup disks; each is probed and marked when it is added."""

    form = RootForm
    list_display = ("path", "is_default", "probed_at")
    fields = ("path", "is_default", "make_default", "marker", "capabilities", "probed_at")
    readonly_fields = ("is_default", "marker", "capabilities", "probed_at")

    def get_readonly_fields(self, request: HttpRequest, obj: BackupRoot | None = None) -> tuple[str, ...]:
        """Generations name their root: its path stays."""
        return (*self.readonly_fields, "path") if obj else self.readonly_fields

    def save_model(self, request: HttpRequest, obj: BackupRoot, form: Any, change: bool) -> None:
        """The disk is touched after the commit: one that hangs must not hold the database's lock."""
        if form.cleaned_data["make_default"]:
            make_default(obj)
        super().save_model(request, obj, form, change)
        transaction.on_commit(partial(mark, request, obj.path))


def mark(request: HttpRequest, path: str) -> None:
    """Probe and mark a stored root; what is wrong with it is said on the page that follows."""
    try:
        row = add_root(Path(path))
    except StoreError as problem:
        messages.error(request, f"No backup can go there yet: {problem}")
    else:
        for note in notes(row.capabilities):
            messages.warning(request, note)


@admin.register(Generation)
class GenerationAdmin(ReadOnly, ModelAdmin):
    """What is kept; kept for ever, restored and let go on the host's page."""

    list_display = (
        "sequence",
        "source",
        "status",
        "started_at",
        "files",
        "bytes",
        "changed_files",
        "verified_at",
        "kept_at",
    )
    list_filter = ("status", ("kept_at", admin.EmptyFieldListFilter), "source__host")
    list_select_related = ("source__host",)
    search_fields = ("source__path", "source__host__name")
    date_hierarchy = "started_at"
    show_full_result_count = False
    list_per_page = 50


@admin.register(HostFacts)
class FactsAdmin(ReadOnly, ModelAdmin):
    """What hosts said of themselves last."""

    list_display = ("host", "read_at")
    list_select_related = ("host",)
