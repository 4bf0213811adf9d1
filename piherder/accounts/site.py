"""The Django admin as this installation has it: whoever is logged in sees in it what their role shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin import AdminSite
from django.contrib.auth.decorators import login_not_required
from django.utils.decorators import method_decorator
from django.views.generic import RedirectView

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase


class HerderAdmin(AdminSite):
    """Django's own flag `is_staff` says nothing here: the permissions of the role do."""

    site_header = site_title = "PiHerder"
    index_title = "Administration"

    def has_permission(self, request: HttpRequest) -> bool:
        """Everyone who is logged in."""
        return request.user.is_active and request.user.is_authenticated

    @method_decorator(login_not_required)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:  # type: ignore[override]  # a redirect
        """There is one login page, so that there is one set of limits."""
        return RedirectView.as_view(pattern_name="login", query_string=True)(request)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:  # type: ignore[override]  # a redirect
        """There is one page for a new password of one's own, which ends the other sessions."""
        return RedirectView.as_view(pattern_name="password")(request)
