"""One's own second step: set up, replaced, taken off; and, for admins, everyone's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django_otp import login as note_second_step

from hosts.vault import SealBroken
from jobs.pages import first_error, page
from piherder.accounts import second_step, sessions
from piherder.accounts.enrolment import codes_page, enrolment, guess, was_right, wrong_code
from piherder.accounts.forms import DutyForm
from piherder.accounts.models import Rules
from piherder.accounts.views import admins_only, myself

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

WRONG_PASSWORD = "This is not your password: try again."  # a sentence
BEGIN_ANEW = "Nothing was changed: type your password again, and the code of the new app within ten minutes."
BEGUN = "second_step_begun"
IS_DUTY = "A second step is a duty here: set up another app in its place instead."


@sensitive_post_parameters("password", "code")
@require_http_methods(["GET", "HEAD", "POST"])
def own_second_step(request: HttpRequest) -> HttpResponse:
    """Show what there is; a POST names one of `STEPS`."""
    me = myself(request)
    step = STEPS.get(request.POST.get("step", ""))
    if step is None:
        return show(request, me)
    try:
        return guess(request, me) or step(request, me)
    except SealBroken as broken:
        return show(request, me, error=str(broken))


def show(request: HttpRequest, me: User, **more: Any) -> HttpResponse:
    """The page."""
    moment = Rules.load().second_step_from
    context = {
        "has_one": second_step.authenticator_of(me) is not None,
        "left": second_step.codes_left(me),
        "from": moment,
    }
    return page(request, "accounts/second_step", context | more)


def _begin(request: HttpRequest, me: User) -> HttpResponse:
    """Who sits at an open page of someone else must not make it theirs; nor does the password alone replace an app."""
    if not me.check_password(request.POST.get("password", "")):
        return show(request, me, error=WRONG_PASSWORD)
    if second_step.authenticator_of(me) and not second_step.accepts(me, request.POST.get("code", "")):
        return show(request, me, error=wrong_code())
    was_right(request, me)
    second_step.begin(me)
    request.session[BEGUN] = time.time()
    return show(request, me, **enrolment(request, me))


def _confirm(request: HttpRequest, me: User) -> HttpResponse:
    """From now on; whoever is logged in elsewhere did not go through it and is out.

    Only in the session that began it, and soon: the page shows the new key again when the code is wrong.
    """
    if abs(time.time() - request.session.get(BEGUN, 0)) > second_step.PATIENCE:
        return show(request, me, error=BEGIN_ANEW)
    codes = second_step.confirm(me, request.POST.get("code", ""))
    if codes is None:
        return show(request, me, wrong=True, **enrolment(request, me))
    was_right(request, me)
    del request.session[BEGUN]
    note_second_step(request, second_step.authenticator_of(me))
    request.session.cycle_key()
    sessions.end_others(request, me)
    return codes_page(request, codes, reverse("account"))


def _remove(request: HttpRequest, me: User) -> HttpResponse:
    """Off again, unless it is a duty."""
    if Rules.load().second_step_from:
        return show(request, me, error=IS_DUTY)
    if not second_step.accepts(me, request.POST.get("code", "")):
        return show(request, me, error=wrong_code())
    was_right(request, me)
    second_step.remove(me)
    messages.success(request, "Your second step is off: the password alone lets you in.")
    return redirect("account")


def _new_codes(request: HttpRequest, me: User) -> HttpResponse:
    """The old ones open nothing any more."""
    if not second_step.accepts(me, request.POST.get("code", "")):
        return show(request, me, error=wrong_code())
    was_right(request, me)
    return codes_page(request, second_step.new_codes(me), reverse("account"))


STEPS: dict[str, Callable[[HttpRequest, User], HttpResponse]] = {
    "begin": _begin,
    "confirm": _confirm,
    "remove": _remove,
    "codes": _new_codes,
}


@admins_only
@require_POST
def take_off_second_step(request: HttpRequest, pk: int) -> HttpResponse:
    """For who lost phone and recovery codes; their sessions end."""
    user = get_object_or_404(User, pk=pk)
    if user == request.user:
        messages.error(request, "Take your own second step off under your name, with a code.")
    elif second_step.remove(user):
        sessions.end_all(user)
        messages.success(request, f"{user} needs no code any more, until they set up an app again.")
    else:
        messages.info(request, f"{user} has no second step.")
    return redirect("accounts")


@admins_only
@require_POST
def second_step_duty(request: HttpRequest) -> HttpResponse:
    """Whether everyone needs a second step, and from when on."""
    form = DutyForm(request.POST)
    if not form.is_valid():
        messages.error(request, first_error(form))
        return redirect("accounts")
    days = form.cleaned_data["days"]
    second_step.require_in(days)
    messages.success(
        request,
        "A second step is up to each account." if days is None else f"Everyone needs a second step {within(days)}.",
    )
    return redirect("accounts")


def within(days: int) -> str:
    """A time of grace in words."""
    return "from now on" if not days else f"in {days} day{'' if days == 1 else 's'}"
