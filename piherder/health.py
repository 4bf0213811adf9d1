"""Whether one program of the installation does its work now, for whoever watches it: `healthcheck` and `/health/`."""

from __future__ import annotations

import platform
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs.beat import RENEW
from jobs.models import BeatLease, WorkerNode
from jobs.monitor import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest

ANSWER_SECONDS = 15.0


class Unwell(Exception):
    """The program does not do its work; the text is one sentence."""


@never_cache
@require_safe
@login_not_required
def health(request: HttpRequest) -> HttpResponse:
    """200 when this web process reaches its database, else 503; nothing more is told to who is not logged in."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError):
        return HttpResponse("The database does not answer.\n", status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")


def ask_web(url: str) -> str:
    """What the page says. Raises Unwell."""
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:  # a loopback address of ours
            return f"The pages answer: {answer.read(200).decode().strip()}."
    except urllib.error.HTTPError as error:
        with error:
            raise Unwell(
                f"The pages answer with {error.code}: {error.read(200).decode(errors='replace').strip()}"
            ) from None
    except OSError as error:
        raise Unwell(f"The pages do not answer ({getattr(error, 'reason', error)}).") from None


def moves(counter: Callable[[], int | None], seconds: float) -> bool:
    """True as soon as the counter differs from what it was; False when it rested for `seconds` or is gone."""
    first = counter()
    return first is not None and wait_for(lambda: counter() not in (None, first), seconds, step=0.5)


def ask_worker() -> str:
    """Watches the heartbeat of this machine's worker. Raises Unwell, DatabaseError."""
    node = WorkerNode.objects.filter(machine=platform.node(), dead_at__isnull=True).order_by("-started_at").first()
    if node is None:
        raise Unwell(f"No worker of {platform.node()} is registered.")

    def beats() -> int | None:
        return WorkerNode.objects.filter(pk=node.pk, dead_at__isnull=True).values_list("beats", flat=True).first()

    if not moves(beats, 2 * settings.PIHERDER_BEAT_SEC + 1):
        raise Unwell(f"The worker {node.name} does not beat.")
    return f"The worker {node.name} beats."


def ask_beat() -> str:
    """Watches the lease that the leading beat renews. Raises Unwell, DatabaseError.

    A stand-by writes nothing of its own: it is well while another leads, and takes the lease when that one goes.
    """

    def counter() -> int | None:
        return BeatLease.objects.filter(pk=1, holder__isnull=False).values_list("counter", flat=True).first()

    if not moves(counter, 1.5 * RENEW):
        raise Unwell("No beat renews the lease, so no schedule fires.")
    leader = BeatLease.objects.values_list("name", flat=True).get(pk=1)
    return "This beat leads." if leader == platform.node() else f"Beat on {leader} leads, this one stands by."
