"""What the Django admin has from other apps, as the roles want it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.models import Group, User
from django_celery_beat.admin import PeriodicTaskAdmin
from django_celery_beat.models import PeriodicTask

from piherder.accounts.admin import AccountAdmin

if TYPE_CHECKING:
    from django.http import HttpRequest

# Each role is a group that is declared in `accounts/roles.py`.
admin.site.unregister([Group, User, PeriodicTask])
admin.site.register(User, AccountAdmin)


@admin.register(PeriodicTask)
class ScheduleAdmin(PeriodicTaskAdmin):  # type: ignore[misc]  # django-celery-beat has no types
    """Schedules, whose actions are for those who may change them."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """None for who may only look: django-celery-beat asks nobody."""
        return super().get_actions(request) if self.has_change_permission(request) else {}
