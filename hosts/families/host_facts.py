"""`host_facts`: what a host says of itself, read in one round trip."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from hosts import facts, hooks
from hosts.family import HostFamily, host_of
from hosts.models import FactsSample, HostFacts
from jobs.patience import patiently
from jobs.registry import JobFailed, Run, Summary, register

if TYPE_CHECKING:
    from hosts.facts import Facts

SAMPLE_EVERY = timedelta(minutes=55)
KEEP_ALL = timedelta(days=14)
KEEP_DAILY = timedelta(days=730)


@register
class ReadFacts(HostFamily):
    """Read OS, memory, disks, temperature and what else a host tells; one current row per host, a thinned history."""

    kind, label = "host_facts", "Read facts"
    lanes = ("host_facts",)
    time_limit = timedelta(minutes=5)
    keep_log = False
    keep_for = timedelta(days=2)

    def run(self, run: Run) -> Summary:
        """One script, one answer. Fails when the host's answer says nothing at all.

        It meets each host often, so it also makes up for a command that a cut-off backup owes.
        """
        paid = hooks.pay(run, host_of(run))
        answer = run.shell().run(facts.argv(), timeout=60)
        found = facts.parse(answer.stdout)
        if found.kernel is None and found.os.id is None:
            said = (answer.stderr or answer.stdout).strip()[:200]
            raise JobFailed(
                f"The host did not answer as a Linux machine does: {said or 'nothing that could be read came back'}."
            )
        patiently(lambda: store(run.host_id or 0, found), run.check_cancel)
        text = f"{facts.one_line(found)}. {paid}" if paid else facts.one_line(found)
        return Summary(text, {"warnings": facts.warnings(found), "problems": list(found.problems)})


def store(host_id: int, found: Facts) -> None:
    """Overwrite the host's current row; add a sample once an hour and thin the old ones then."""
    now = timezone.now()
    with transaction.atomic():
        HostFacts.objects.update_or_create(host_id=host_id, defaults={"data": found.to_json(), "read_at": now})
        samples = FactsSample.objects.filter(host_id=host_id)
        if samples.filter(at__gt=now - SAMPLE_EVERY, at__lte=now).exists():
            return
        FactsSample.objects.create(host_id=host_id, at=now, numbers=facts.thin(found))
        samples.filter(pk__in=surplus(list(samples.values_list("pk", "at")), now)).delete()


def surplus(samples: list[tuple[int, datetime]], now: datetime) -> list[int]:
    """Ids of samples that may go: past two weeks all but the newest of each day, past two years all."""
    met: set[date] = set()
    gone = []
    for pk, at in sorted(samples, key=lambda sample: sample[1], reverse=True):
        age = now - at
        if age <= KEEP_ALL:
            continue
        if age > KEEP_DAILY or at.date() in met:
            gone.append(pk)
        met.add(at.date())
    return gone
