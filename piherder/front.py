"""What stands before every view: whose forwarded headers count, and who asks under a name or from an origin of ours.

Who does not is told what was seen and which line to set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.middleware.csrf import REASON_BAD_ORIGIN, REASON_BAD_REFERER, REASON_NO_CSRF_COOKIE
from django.shortcuts import render

from piherder.addresses import DEFAULT_PORTS, LOOPBACK, bracketed, client, is_trusted, line

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase

HIDDEN = "null"  # how a browser writes an origin that it does not tell


class TrustedProxies:
    """Middleware that takes what a trusted proxy says for the request's own, before anybody looks at it.

    Not the name that was asked for: proxies hand Host on, and many hand on an X-Forwarded-Host that they did not write.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer."""
        known, meta = settings.PIHERDER_TRUSTED_PROXIES, request.META
        came_from = meta.get("REMOTE_ADDR", "")
        if known and is_trusted(came_from, known):
            meta["REMOTE_ADDR"] = client(came_from, meta.get("HTTP_X_FORWARDED_FOR", ""), known)
            # Each proxy on the way may add its own; the last is of the one that we know.
            scheme = meta.get("HTTP_X_FORWARDED_PROTO", "").rpartition(",")[2].strip().lower()
            if scheme in DEFAULT_PORTS:
                meta["wsgi.url_scheme"] = scheme
        return self.get_response(request)


class KnownHost:
    """Middleware that answers who asks under a name that is not ours, in words."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer, or say which name was seen."""
        try:
            request.get_host()
        except DisallowedHost:
            seen = request.META.get("HTTP_HOST", "")
            return render(
                request, "wrong_host.html", {"seen": seen, "line": line(f"{request.scheme}://{seen}")}, status=400
            )
        return self.get_response(request)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """The page for a form that was not taken: from an unknown origin, without a cookie, or too old."""
    context: dict[str, Any] = {}
    if seen := sender(request, reason):
        context = {"seen": seen, "line": line(seen)}
    elif reason == REASON_NO_CSRF_COOKIE and settings.CSRF_COOKIE_SECURE and not is_encrypted(request):
        context = {"tls": settings.PIHERDER_URL}
    return render(request, "403_csrf.html", context, status=403)


def sender(request: HttpRequest, reason: str) -> str:
    """The origin that a form was refused for: "null" when the browser hides it, "" when it was something else."""
    if reason.startswith(REASON_BAD_ORIGIN.partition("%s")[0]):
        return str(request.META.get("HTTP_ORIGIN", ""))
    if not reason.startswith(REASON_BAD_REFERER.partition("%s")[0]):
        return ""
    found = re.match(r"https?://[^/?#]+", request.META.get("HTTP_REFERER", ""))
    return found[0] if found else HIDDEN


def is_encrypted(request: HttpRequest) -> bool:
    """Whether nobody on the way reads along, as far as can be told.

    A tunnel or this machine itself ends at loopback. A proxy that is not trusted still speaks TLS where the address of
    the pages says so.
    """
    host = request.get_host()
    name = bracketed(urlsplit(f"//{host}").hostname or "")
    behind_tls = settings.PIHERDER_URL.startswith("https:") and host == urlsplit(settings.PIHERDER_URL).netloc
    return request.is_secure() or name in LOOPBACK or behind_tls


def encryption(request: HttpRequest) -> dict[str, Any]:
    """Context of every template."""
    return {"is_encrypted": lambda: is_encrypted(request)}
