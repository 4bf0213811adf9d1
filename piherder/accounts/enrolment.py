"""What the pages about the second step share, whether before the login or after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import segno
from django.contrib import messages
from django.shortcuts import render
from django.utils import timezone
from django.utils.safestring import mark_safe

from jobs.pages import unkept
from piherder.accounts import limits, second_step
from piherder.accounts.models import Authenticator

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import HttpRequest, HttpResponse


def guess(request: HttpRequest, user: User) -> HttpResponse | None:
    """Count a guess at an account's code or password; the page that refuses it, or None when it is looked at.

    Who has to wait already waits no longer for trying.
    """
    name, address = user.get_username(), limits.address_of(request)
    if not limits.wait(name, address):
        limits.count(name, address)
        if not limits.wait(name, address, counted=1):
            return None
    return limits.locked_page(request, None, {"username": name})


def was_right(request: HttpRequest, user: User) -> None:
    """Forget the guesses of who turned out to be right."""
    limits.unlock(username=user.get_username(), ip_address=limits.address_of(request))


def enrolment(request: HttpRequest, user: User) -> dict[str, Any]:
    """Context for the page that shows a begun authenticator; empty when none was begun. Raises SealBroken."""
    begun = Authenticator.objects.filter(user=user, confirmed=False).first()
    if begun is None:
        return {}
    address = second_step.address_for_app(begun, request.get_host())
    drawing = segno.make(address, error="m").svg_inline(scale=4, border=3, dark="#000", light="#fff", svgclass="qr")
    # The library drew it from our own text, of which only squares are left.
    return {"qr": mark_safe(drawing), "key": second_step.spelled(begun), "address": address}


def codes_page(request: HttpRequest, codes: list[str], onward: str) -> HttpResponse:
    """The recovery codes, shown this once."""
    return unkept(render(request, "accounts/codes.html", {"codes": codes, "onward": onward}))


def wrong_code() -> str:
    """What is said to a wrong code; the clock, because a herder's that is off makes every code wrong."""
    return (
        "This code is not right, or was used before: type the next one. If none is taken, compare clocks: "
        f"the herder has {timezone.localtime():%H:%M:%S %Z}."
    )


def left_words(request: HttpRequest, user: User, code: str) -> None:
    """After a recovery code was used: how many are left."""
    if len("".join(code.split())) <= 6:
        return
    left = second_step.codes_left(user)
    text = f"A recovery code was used, {left} of {second_step.CODES} left: make new ones under your name."
    (messages.warning if left < 4 else messages.info)(request, text)
