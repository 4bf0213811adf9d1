"""What templates need to say: moments, lengths, sizes, icons, bars, and a job's lines in words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from hosts.words import size as size_words
from jobs import registry
from jobs.in_place import kept
from jobs.models import Job, Status
from jobs.pages import may_run
from jobs.spans import ago
from jobs.spans import took as took_words
from piherder.accounts.sessions import browser_words

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from django.template import Context
    from django.utils.safestring import SafeString

register = template.Library()
BAR = (
    '<svg class="bar {}" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="{}">'
    '<rect class="fill" width="{}" height="4"/></svg>'
)
IN_PLACE = (
    'method="post" action="{0}" hx-post="{0}" hx-target="{1}" hx-swap="outerHTML show:top" '
    'hx-disabled-elt="find button"'
)
ICONS = {Status.SUCCEEDED: "ok", Status.FAILED: "bad", Status.CANCELLED: "off", Status.RUNNING: "run"}


@register.filter
def moment(value: datetime | None) -> SafeString | str:
    """How long ago, with the exact moment on hover."""
    if value is None:
        return "never"
    exact = f"{timezone.localtime(value):%Y-%m-%d %H:%M:%S %Z}"
    return format_html('<time datetime="{}" title="{}">{}</time>', value.isoformat(), exact, ago(value))


@register.filter
def clock(value: datetime) -> SafeString:
    """The time of day to the second, with the exact moment on hover."""
    local = timezone.localtime(value)
    exact = f"{local:%Y-%m-%d %H:%M:%S %Z}"
    return format_html('<time datetime="{}" title="{}">{}</time>', value.isoformat(), exact, f"{local:%H:%M:%S}")


@register.filter
def took(value: timedelta | None) -> str:
    """A length of time; a dash when there is none."""
    return took_words(value) or "–"


@register.filter
def size(value: int | None) -> str:
    """Bytes as people read them."""
    return "" if value is None else size_words(value)


@register.filter
def thousands(value: int) -> str:
    """12,345."""
    return f"{value:,}"


@register.filter
def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.simple_tag
def icon(name: str) -> SafeString:
    """A sign of the sprite; the words beside it say the same."""
    return format_html('<svg class="icon {0}" aria-hidden="true"><use href="#i-{0}"/></svg>', name)


@register.simple_tag
def bar(percent: int | None, label: str, level: str = "run") -> SafeString:
    """A bar that needs no style attribute; without a percentage it is empty."""
    return format_html(BAR, level if percent is not None else "unknown", label, percent or 0)


@register.simple_tag
def posts_in_place(view: str, *args: Any, target: str = "#in-place") -> SafeString:
    """What makes a form that starts a job show it on its own page; without script the form leads to the job."""
    return format_html(IN_PLACE, reverse(view, args=args), target)


@register.inclusion_tag("jobs/in_place.html", takes_context=True)
def job_in_place(context: Context) -> dict[str, Any]:
    """The live view of the job that the page's address names, else the empty place where one goes."""
    request = context["request"]
    return {**kept(request), "may_run": may_run(request)}


@register.filter
def sign(job: Job) -> str:
    """The name of the icon and colour of a job's state."""
    if job.status == Status.PENDING:
        return "wait" if job.waiting_on and not job.attempt else "queue"
    return ICONS[Status(job.status)]


@register.filter
def kind_label(job: Job) -> str:
    """What a job does, in words; a kind that is no longer installed keeps its name."""
    return registry.label(job.kind)


@register.filter
def doing(job: Job) -> str:
    """One line: why it waits and when it is looked at next, what it does, or what proves how it ended."""
    if job.status == Status.RUNNING:
        return ": ".join(filter(None, (job.step, amount(job))))
    if job.status == Status.PENDING:
        return "; ".join(filter(None, (job.waiting_why.rstrip("."), probe_words(job.next_probe_at))))
    return job.evidence


def probe_words(when: datetime | None) -> str:
    """When a waiting job is looked at next."""
    if when is None:
        return ""
    return f"next probe {ago(when)}" if when > timezone.now() else "next probe now"


@register.filter
def amount(job: Job) -> str:
    """Progress in words: "63 %, 41.2 MB/s"."""
    percent = f"{job.percent} %" if job.percent is not None else ""
    return ", ".join(filter(None, (percent, job.progress_label)))


@register.filter
def browser(agent: str) -> str:
    """A browser as a person knows it."""
    return browser_words(agent)


@register.filter
def node_words(job: Job) -> str:
    """Which worker has it."""
    return job.node or "not claimed"
