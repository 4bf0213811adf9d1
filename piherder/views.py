"""Signing in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth import views
from django.contrib.auth.decorators import login_not_required
from django.utils.decorators import method_decorator
from django_htmx.http import HttpResponseClientRefresh

if TYPE_CHECKING:
    from typing import Any

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase


class Login(views.LoginView):
    """The login page; a part that lives and whose session is over has its whole page loaded anew, which ends here."""

    redirect_authenticated_user = True

    @method_decorator(login_not_required)
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Never put a login form into the middle of a page."""
        if getattr(request, "htmx", False):
            return HttpResponseClientRefresh()
        return super().dispatch(request, *args, **kwargs)
