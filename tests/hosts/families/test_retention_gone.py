"""Retention where folders have gone from the disk without their rows."""

from __future__ import annotations

import shutil
from datetime import timedelta

from django.utils import timezone

from hosts.models import Source
from hosts.store.layout import list_generations
from jobs.models import Status
from jobs.services import request_job
from tests.hosts.rows import make_generation

from .conftest import ASKER, MakePi, Pi, carry_out


def test_what_cannot_be_restored_takes_no_place_of_what_can(off_pi: Pi) -> None:
    off_pi.edit(keep_last=2, keep_daily=0, keep_weekly=0, keep_monthly=0)
    rows = [off_pi.keep(started_at=timezone.now() - timedelta(days=age)) for age in (4, 3, 2, 1)]
    for row in rows[2:]:
        shutil.rmtree(row.path)
    assert carry_out(request_job("retention", None, {}, asker=ASKER).job).summary.startswith("0 generations removed")
    assert [found.sequence for found in list_generations(off_pi.folder)] == [1, 2]


def test_a_disk_that_answers_with_an_error_costs_only_its_own_host(make_pi: MakePi) -> None:
    pis = [make_pi(name, start=False) for name in ("pi1", "pi2")]
    for pi in pis:
        pi.edit(keep_last=2, keep_daily=0, keep_weekly=0, keep_monthly=0)
        for age in (3, 2, 1):
            pi.keep(started_at=timezone.now() - timedelta(days=age))
    # ENAMETOOLONG: the one such error that needs no broken disk
    other = Source.objects.create(host=pis[0].host, path="/other", folder="other")
    make_generation(other, root=f"/{'x' * 300}")
    job = carry_out(request_job("retention", None, {}, asker=ASKER).job)
    assert (job.status, job.summary) == (Status.SUCCEEDED, "1 generation removed, 2 kept, 1 host passed over.")
    (why,) = job.result["passed_over"]
    assert why.startswith("pi1: its backups could not be looked at: [Errno 36]")
    assert [[found.sequence for found in list_generations(pi.folder)] for pi in pis] == [[1, 2, 3], [2, 3]]
