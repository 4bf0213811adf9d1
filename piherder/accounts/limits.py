"""How many guesses at a password are looked at, counted in the database: all web processes share them.

django-axes brings the table, the backend that is asked before a password is looked at, and the middleware that shows
the page. Two things are done otherwise here. A guess is counted before the password is looked at: in a burst of
requests many would be looked at while none is counted yet. And a login takes back only what was counted for this name
from this address: who has an account of their own could otherwise wipe out their guesses at others'.
"""

from __future__ import annotations

import ipaddress
import logging
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from axes.backends import AxesStandaloneBackend
from axes.exceptions import AxesBackendPermissionDenied
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.db.models import F
from django.shortcuts import render
from django.utils import timezone

from jobs.pages import unkept

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.contrib.auth.models import User
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

PER_ACCOUNT, PER_ADDRESS = 5, 20
COOL_OFF = timedelta(minutes=15)
# Pages behind a Unix socket hear of no address; all who come that way are one. The unspecified address of RFC 4291.
UNKNOWN = "::"

logger = logging.getLogger(__name__)


def address_of(request: HttpRequest) -> str:
    """What counts as the address of a request; of IPv6 its network of 64 bits, which one customer has as a whole."""
    return network(request.META.get("REMOTE_ADDR", "")) or UNKNOWN


def plain_address(request: HttpRequest) -> str:
    """The address of a request as it is; "" when there is none."""
    found = str(request.META.get("REMOTE_ADDR", "")).partition("%")[0]
    return found if network(found) else ""


def network(address: str) -> str:
    """What counts as the address for this one; "" for a text that is none."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv4Address) or found.is_loopback:
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False).network_address)


def _live(now: datetime) -> QuerySet[Any]:
    """What still counts. A clock that was wrong and was set back must not make anybody wait for its time."""
    return AccessAttempt.objects.filter(attempt_time__gt=now - COOL_OFF, attempt_time__lte=now + COOL_OFF)  # type: ignore[no-any-return]  # django-axes has no types


def _free_at(rows: QuerySet[Any], limit: int) -> datetime | None:
    """When fewer than `limit` guesses of these rows will count; None when that is so now."""
    total = 0
    for at, failures in rows.order_by("-attempt_time").values_list("attempt_time", "failures_since_start"):
        total += failures
        if total >= limit:
            return at + COOL_OFF  # type: ignore[no-any-return]  # django-axes has no types
    return None


def wait(name: str, address: str, *, counted: int = 0) -> timedelta | None:
    """How long until a guess at this name from this address is looked at; None when one is now.

    `counted` is 1 for who has counted their own guess already.
    """
    now = timezone.now()
    return _longest(_ends(name, address, now, counted), now)


def _ends(name: str, address: str, now: datetime, counted: int = 0) -> tuple[datetime | None, datetime | None]:
    """When guesses at this name, and those from this address, are looked at again."""
    rows = _live(now)
    by_name = _free_at(rows.filter(username=name), PER_ACCOUNT + counted)
    return by_name, _free_at(rows.filter(ip_address=address), PER_ADDRESS + counted)


def _longest(ends: Iterable[datetime | None], now: datetime) -> timedelta | None:
    return max((end - now for end in ends if end), default=None)


def _whom_to_unlock(address: str, by_name: datetime | None, by_address: datetime | None) -> str:
    """The words behind `unlock_login` that help who waits; an account is called NAME, as what was typed may be none."""
    if not by_address:
        return "NAME"
    return "--all" if by_name else f"--address {address}"


def count(name: str, address: str) -> None:
    """One more guess; those that no longer count are removed."""
    now = timezone.now()
    AccessAttempt.objects.exclude(pk__in=_live(now).values("pk")).delete()
    mine = {"username": name, "ip_address": address, "user_agent": ""}
    more = {"failures_since_start": F("failures_since_start") + 1, "attempt_time": now}
    if not AccessAttempt.objects.filter(**mine).update(**more):
        _, is_first = AccessAttempt.objects.get_or_create(**mine, defaults={"failures_since_start": 1})
        if not is_first:
            AccessAttempt.objects.filter(**mine).update(**more)


def unlock(**which: str) -> int:
    """Forget the guesses at `username`, those from `ip_address`, or all; returns how many were forgotten."""
    rows = AccessAttempt.objects.filter(**which)
    guesses: int = sum(rows.values_list("failures_since_start", flat=True))
    rows.delete()
    return guesses


class Limits(AxesStandaloneBackend):  # type: ignore[misc]  # django-axes has no types
    """Asked before the password is looked at; refuses by PermissionDenied, which ends the login."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **more: Any
    ) -> None:
        """Count the guess, or refuse it."""
        super().authenticate(request, username, password, **more)
        if request is None or username is None:
            return
        address = address_of(request)
        count(username, address)
        if wait(username, address, counted=1):
            request.axes_locked_out = True  # type: ignore[attr-defined]  # the middleware of django-axes asks for it
            raise AxesBackendPermissionDenied


class Handler(AxesDatabaseHandler):  # type: ignore[misc]  # django-axes has no types
    """What django-axes does at a login that fails or succeeds, by our count."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        """True while no guess is looked at."""
        name = (credentials or {}).get("username")
        return name is not None and wait(name, address_of(request)) is not None

    def user_login_failed(
        self, sender: object, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any
    ) -> None:
        """The last guess shows at once how long the next one waits. No name is logged: it may be a password."""
        if request is None:
            return
        if self.is_locked(request, credentials):
            request.axes_locked_out = True  # type: ignore[attr-defined]  # the middleware of django-axes asks for it
        request.axes_credentials = credentials  # type: ignore[attr-defined]  # and hands them to `locked_page`
        logger.warning("A login from %s failed.", request.META.get("REMOTE_ADDR") or "an unknown address")

    def user_logged_in(self, sender: object, request: HttpRequest, user: User, **_: Any) -> None:
        """The guesses of who now got in are forgotten."""
        unlock(username=user.get_username(), ip_address=address_of(request))

    def user_logged_out(self, sender: object, request: HttpRequest, user: User | None, **_: Any) -> None:
        """Nothing counts logouts."""


def locked_page(request: HttpRequest, answer: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """The page for whose guess was not looked at, the same whether there is such an account or not."""
    name, address = (credentials or {}).get("username") or "", address_of(request)
    now = timezone.now()
    ends = _ends(name, address, now)
    left = _longest(ends, now) or timedelta(seconds=1)
    context = {"minutes": math.ceil(left / timedelta(minutes=1)), "unlock": _whom_to_unlock(address, *ends)}
    response = render(request, "registration/locked.html", context, status=429)
    response["Retry-After"] = str(math.ceil(left.total_seconds()))
    return unkept(response)
