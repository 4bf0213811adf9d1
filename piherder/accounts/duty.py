"""A session that lacks the second step is over where its account has one, or everyone needs one by now."""

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


NEEDS_ONE = "Every account needs a second step now: log in again, and set yours up."
HAS_ONE = "Your account has a second step: log in again, with a code."


class SecondStepDuty:
    """Middleware that asks nothing of the database: all of it came with the account (`RoleBackend.get_user`).

    A login with the password alone may have begun a moment before the account's second step was set up.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, or begin the login anew."""
        has_one = getattr(request.user, "authenticator_id", None) is not None
        needs_one = has_one or is_duty(getattr(request.user, "second_step_from", None))
        if not needs_one or is_done(request):
            return self.get_response(request)
        logout(request)
        messages.info(request, HAS_ONE if has_one else NEEDS_ONE)
        if getattr(request, "htmx", False):
            return HttpResponseClientRefresh()
        return redirect("login")
