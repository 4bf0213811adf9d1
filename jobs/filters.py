"""Which jobs a list shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django import forms

from jobs import registry
from jobs.models import ACTIVE, TERMINAL, Job, Status

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import QueryDict

PAGE = 50  # ended jobs on one page
MOST_ACTIVE = 200  # active jobs on the first page
ANY = ("", "any")


class JobFilter(forms.Form):
    """Host, kind and state; what is left out or unknown filters nothing."""

    host = forms.ChoiceField(required=False)
    kind = forms.ChoiceField(required=False)
    status = forms.ChoiceField(required=False, label="State", choices=[ANY, ("active", "Active"), *Status.choices])
    before = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)

    def __init__(self, data: QueryDict) -> None:
        super().__init__(data)
        self.fields["host"].choices = [ANY, *((str(pk), name) for pk, name in registry.gate().herd().items())]  # type: ignore[attr-defined]  # a ChoiceField
        self.fields["kind"].choices = [ANY, *((each.kind, each.label) for each in registry.kinds())]  # type: ignore[attr-defined]  # a ChoiceField

    def wanted(self) -> dict[str, str]:
        """The filters that are set and known."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of a list; `older` is the query string of the next one, "" on the last."""

    active: list[Job]
    ended: list[Job]
    older: str
    filtered: bool


def job_page(wanted: dict[str, str]) -> JobPage:
    """Active jobs first (on the first page), then ended ones, newest first; two queries whatever the size."""
    jobs = matching(wanted)
    before = wanted.get("before")
    active = [] if before else list(jobs.filter(status__in=ACTIVE)[:MOST_ACTIVE])
    over = jobs.filter(status__in=TERMINAL)
    ended = list((over.filter(pk__lt=int(before)) if before else over)[: PAGE + 1])
    older = urlencode({**wanted, "before": ended[PAGE - 1].pk}) if len(ended) > PAGE else ""
    return JobPage(active, ended[:PAGE], older, filtered=bool(set(wanted) - {"before"}))


def matching(wanted: dict[str, str]) -> QuerySet[Job]:
    """Jobs that pass the filters, newest first."""
    jobs = Job.objects.select_related("host").defer("result", "params")
    if "host" in wanted:
        jobs = jobs.filter(host_id=int(wanted["host"]))
    if "kind" in wanted:
        jobs = jobs.filter(kind=wanted["kind"])
    if "status" in wanted:
        jobs = jobs.filter(status__in=ACTIVE if wanted["status"] == "active" else [wanted["status"]])
    return jobs.order_by("-pk")
