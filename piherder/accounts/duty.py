"""From the moment on when everyone needs a second step, a session that lacks it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth import logout
from django.shortcuts import redirect
from django_htmx.http import HttpResponseClientRefresh

from piherder.accounts.second_step import is_done, is_duty

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase


class SecondStepDuty:
    """Middleware that asks nothing of the database: the moment came with the account (`RoleBackend.get_user`)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, or begin the login anew."""
        moment = getattr(request.user, "second_step_from", None)
        if not is_duty(moment) or is_done(request):
            return self.get_response(request)
        logout(request)
        messages.info(request, "Every account needs a second step now: log in again, and set yours up.")
        if getattr(request, "htmx", False):
            return HttpResponseClientRefresh()
        return redirect("login")
