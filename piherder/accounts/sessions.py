"""Sessions as people know them: when, from where, with which browser; and their end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.contrib.sessions.models import Session
from django.utils import timezone

from piherder.accounts.limits import plain_address
from piherder.accounts.models import SignIn

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import QuerySet
    from django.http import HttpRequest

# The first that fits names it: most browsers call themselves by the names of those before them, too.
BROWSERS = (
    ("Edge", r"Edg(?:e|A|iOS)?/(\d+)"),
    ("Opera", r"OPR/(\d+)"),
    ("Samsung Internet", r"SamsungBrowser/(\d+)"),
    ("Firefox", r"(?:Firefox|FxiOS)/(\d+)"),
    ("Chrome", r"(?:Chrome|CriOS|Chromium)/(\d+)"),
    ("Safari", r"Version/(\d+).*Safari/"),
    ("curl", r"curl/(\d+)"),
)
SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows NT"),
    ("macOS", "Mac OS X|Macintosh"),
    ("ChromeOS", "CrOS"),
    ("Linux", "Linux|X11"),
)


def browser_words(agent: str) -> str:
    """A browser as a person knows it, such as "Firefox 140 on Linux"; what it says of itself when it is not known."""
    name = next((f"{name} {found[1]}" for name, sign in BROWSERS if (found := re.search(sign, agent))), "")
    system = next((name for name, sign in SYSTEMS if re.search(sign, agent)), "")
    if not name:
        return agent[:80] or "unknown browser"
    return f"{name} on {system}" if system else name


def remember(request: HttpRequest, user: User) -> None:
    """Write down the session of a request, which has a new key."""
    if request.session.session_key is None:
        request.session.save()
    session = Session.objects.get(session_key=request.session.session_key)
    agent = request.META.get("HTTP_USER_AGENT", "").replace("\0", "")
    SignIn.objects.create(session=session, user=user, address=plain_address(request) or None, browser=agent[:300])


def end_others(request: HttpRequest, user: User) -> int:
    """End every session of an account but this one, which has got a new key; returns how many ended."""
    assert request.user.is_authenticated
    remember(request, request.user)
    return end_all(user, but=request.session.session_key)


def on_login(request: HttpRequest, user: User, **_: Any) -> None:
    """Receiver of Django's signal."""
    remember(request, user)


def live() -> QuerySet[SignIn]:
    """Sessions that have not run out, the newest first."""
    return SignIn.objects.filter(session__expire_date__gt=timezone.now())


def end(sign_ins: QuerySet[SignIn]) -> int:
    """End these sessions; returns how many there were."""
    return Session.objects.filter(sign_in__in=sign_ins).delete()[1].get("sessions.Session", 0)


def end_all(user: User, *, but: str | None = None) -> int:
    """End every session of an account, or every one but that with this key; returns how many there were."""
    return end(SignIn.objects.filter(user=user).exclude(session_id=but))
