"""Who is not logged in is asked to; what they sent is not done, and no page of theirs is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.urls import reverse

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseRedirect
    from django.http.response import HttpResponseBase

NOT_DONE = "You were logged out before this was sent, and nothing was changed: log in, and send it again."


class LoginRequired(LoginRequiredMiddleware):
    """Leads back after the login; not to an address that only takes forms and shows nothing."""

    def handle_no_permission(
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseRedirect:
        """To the login."""
        if request.method in {"GET", "HEAD"}:
            return super().handle_no_permission(request, view_func)
        if request.resolver_match is None or request.resolver_match.url_name != "logout":
            messages.info(request, NOT_DONE)
        return redirect_to_login(came_from(request) or reverse("start"))


def came_from(request: HttpRequest) -> str:
    """The page of ours that a form was sent from; "" when the browser does not say."""
    try:
        page = urlsplit(str(request.META.get("HTTP_REFERER", "")))
    except ValueError:
        return ""
    if page.netloc != request.get_host():
        return ""
    return page._replace(scheme="", netloc="", fragment="").geturl()
